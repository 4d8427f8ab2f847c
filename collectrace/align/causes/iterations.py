"""The iteration that ranks were in, of the training or of another loop of the program."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.causes.situation import Situation
from collectrace.align.judging import departures
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import RankLog
from collectrace.records import DDP_FORWARD, Call

_MOST: Final = 4
"""Different iterations that a note lists."""

_MOST_ROWS: Final = 10_000
"""Latest calls of a stream or channel among which an iteration is sought."""


def notes(situation: Situation) -> list[str]:
    """Return the iterations of the calls, and how many equal ones came before."""
    return [one for one in (_numbers(situation), _alike(situation)) if one]


def at(situation: Situation, number: int | None) -> str:
    """Return `` in DDP iteration 4``; empty if nothing counts iterations.

    That is no iteration of a loop: a program may run several in each of its epochs. The number of a
    step is not told here: it is not what the program's own variable holds.
    """
    name = _unit(situation)
    return f" in {name} {number}" if name not in ("", "Step") and number is not None else ""


def _unit(situation: Situation) -> str:
    logs = [situation.case.log(rank) for side, _ in situation.called for rank in side.ranks]
    units = {log.unit for log in logs if log is not None}
    if len(units) != 1 or None in units:
        return ""
    return "DDP iteration" if units == {DDP_FORWARD} else "Step"


def _numbers(situation: Situation) -> str:
    """Return ``DDP iteration 6.``, or each rank's iteration; empty if nothing counts them."""
    name, models = _unit(situation), {call.model for _, call in situation.called}
    if not name or len(models) > 1:
        return ""
    by_number: dict[int, list[int]] = {}
    for side, call in situation.called:
        if call.iteration is not None:
            by_number.setdefault(call.iteration, []).extend(side.ranks)
    if len(by_number) < 2:
        return "".join(f"{name} {number}{_place(situation, number)}." for number in by_number)
    listed = [f"{n} on {words.ranks(ranks)}" for n, ranks in sorted(by_number.items())[:_MOST]]
    return f"{name} {', '.join(listed)}."


def _place(situation: Situation, number: int) -> str:
    """Return ``: the 2nd of 4 calls``, by the iteration before; empty unless all sides agree."""
    found = {
        _place_of(log, call, number)
        for side, call in situation.called
        if (log := situation.case.log(side.ranks[0])) is not None
    }
    if len(found) != 1:
        return ""
    place, usual = found.pop()
    is_told = 0 < place <= usual and usual > 1
    return f": the {words.ordinal(place)} of {usual} calls" if is_told else ""


def _place_of(log: RankLog, call: Call, number: int) -> tuple[int, int]:
    """Return the place of a call among those of its iteration, and how many the one before had."""
    all_rows = [log.rows(key)[0] for key in log.counts]
    place = usual = 0
    for rows in all_rows:
        for n in range(len(rows) - 1, max(-1, len(rows) - _MOST_ROWS), -1):
            if 0 <= rows.iteration[n] < number - 1:
                break
            usual += rows.iteration[n] == number - 1
            place += rows.iteration[n] == number and rows.t[n] <= call.t
    return place, usual


def _alike(situation: Situation) -> str:
    """Return how many iterations a rank completed without leaving its usual calls."""
    if not isinstance(situation.candidate.source, Divergence):
        return ""
    found = departures.from_own(situation.case, situation.candidate)
    if found is None or not found.alike:
        return ""
    before = words.counted(found.alike, "iteration")
    return f"In the {before} before, {words.ranks(found.ranks)} followed the usual pattern."
