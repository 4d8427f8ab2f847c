"""Find how a rank of a wait cycle left its usual calls, from the evidence against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from collectrace.align.causes import structure
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.candidates import awaited_call
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import Departure, What
from collectrace.align.judging.facts_of_exchanges import Odd
from collectrace.align.judging.own_calls import Awaited, awaited, call_of, calls_of
from collectrace.align.judging.own_round import LeftRound, are_same_line, left_own_round
from collectrace.records import Call

_BY_RANK: Final = "led_by_its_rank"
_CHANGING: Final = "hub_serves_as_many"
_OTHERS_KEPT: Final = "left_repeated_round"
FACTS_READ: Final = frozenset({_BY_RANK, _CHANGING, _OTHERS_KEPT})
"""Facts without data that show how ranks departed."""


@dataclass(frozen=True, slots=True)
class Departed:
    """Ranks that left their usual calls at one place."""

    what: What
    ranks: tuple[int, ...]
    call: Call
    """The first call that they skipped, or else the first that they made."""
    count: int = 1
    """Number of such calls."""
    usual: Call | None = None
    """What they called there in every iteration before."""
    rounds: int = 0
    """Number of these iterations; 0: not known."""
    others: tuple[int, ...] = ()
    """Peers that did otherwise."""
    times: tuple[int, int] | None = None
    """How often they called it in this iteration, and how often is usual."""
    served: tuple[int, int] | None = None
    """Number of ranks served per iteration, usually and in this one, if the ranks change."""
    others_kept: bool = False
    """All other ranks are known to have kept their usual calls."""
    after: Call | None = None
    """The call that the skipped one always follows, except this time."""
    in_run: bool = False
    """The calls before are the same message: any iteration may be the one that skipped it."""


def find(situation: Situation) -> Departed | None:
    """Return the departure that led ranks to wait for each other; None: none is known."""
    candidate, suspects = situation.candidate, situation.suspects
    waits = list(awaited(situation.case, candidate))
    if not suspects:
        return _in_tie(situation, waits)
    shown = {type(row.shown_by): row.shown_by for row in candidate.evidence}
    facts = {row.fact for row in candidate.evidence}
    found = next(_of_suspects(situation, waits, shown, facts), None)
    if found is None:
        return None
    return replace(found, ranks=suspects, others_kept=_OTHERS_KEPT in facts)


def _of_suspects(
    situation: Situation, waits: Sequence[Awaited], shown: dict[type, object], facts: set[str]
) -> Iterator[Departed]:
    case, suspects = situation.case, situation.suspects
    of_kind, odd, served = shown.get(Departure), shown.get(Odd), shown.get(list)
    if isinstance(of_kind, Departure) and of_kind.calls:
        calls = of_kind.calls
        is_other = of_kind.what in (What.OTHER_CALL, What.SWAPPED)
        yield Departed(
            of_kind.what, suspects, calls[0], 1 if is_other else len(calls),
            calls[1] if is_other and len(calls) > 1 else None, others=of_kind.others,
        )  # fmt: skip
    mine = next((at for at in waits if at.rank in suspects), None)
    stuck = awaited_call(case, mine.elsewhere) if mine is not None else None
    due = _due(case, mine) if mine is not None else None
    likes = tuple(sorted(odd.likes)) if isinstance(odd, Odd) else ()
    others = likes or tuple(r for r in case.evidence.logs if r not in suspects)
    if _BY_RANK in facts and stuck is not None:
        yield Departed(What.EXTRA, suspects, stuck, others=others)
    if _CHANGING in facts and isinstance(served, list) and stuck is not None and due is not None:
        numbers = len(served[-2]), len(served[-1])
        is_more = numbers[0] == numbers[1]
        what, call = (What.EXTRA, stuck) if is_more else (What.SKIPPED, due)
        yield Departed(what, suspects, call, served=numbers)
    left = shown.get(LeftRound) or left_own_round(case, suspects[0])
    gap = shown.get(Entry)
    if isinstance(gap, Entry) and due is not None:
        made = calls_of(case, suspects[0])
        rounds = sum(one.place == gap.place for one in made if one.t < gap.t)
        after = call_of(case, suspects[0], gap)
        yield Departed(What.SKIPPED, suspects, due, 1, due, rounds, others=likes, after=after)
    if isinstance(left, LeftRound) and (left.skipped or left.extra or not isinstance(odd, Odd)):
        yield _of_round(case, left, likes)
    if isinstance(odd, Odd) and due is not None and stuck is not None:
        usual = max(odd.likes.values(), default=0)
        is_put_off = due.peer is None and stuck.peer is not None
        what, call = (What.EXTRA, stuck) if is_put_off else (What.SKIPPED, due)
        times = (odd.made, usual) if odd.made and not is_put_off else None
        yield Departed(what, suspects, call, rounds=odd.rounds, others=likes, times=times)
    if due is not None:
        yield Departed(What.SKIPPED, suspects, due)


def _in_tie(situation: Situation, waits: Sequence[Awaited]) -> Departed | None:
    """Return the departure of the only rank of a cycle that departed; None if several did alike."""
    case = situation.case
    found = [left for at in waits if (left := left_own_round(case, at.rank)) is not None]
    if len({(one.usual.op, one.usual.site) for one in found}) < len(found):
        return None
    keys = {(at.rank, at.key) for at in waits}
    telling = [one for one in found if (one.rank, one.key) in keys] or found
    if len(telling) != 1:
        return None
    (left,) = telling
    # Nobody waits for one more of the messages over which the loop went.
    has_ended = (left.rank, left.key) not in keys and _ended_a_loop(situation, left)
    return None if has_ended else _of_round(case, left, ())


def _ended_a_loop(situation: Situation, left: LeftRound) -> bool:
    """Whether a rank only went on from a loop over messages to what is behind it."""
    is_new = not left.skipped and not left.extra
    is_message = left.usual.peer is not None
    return is_message and is_new and structure.is_outside_loop(situation, left)


def _of_round(case: Case, left: LeftRound, others: tuple[int, ...]) -> Departed:
    what = What.SKIPPED if left.skipped else What.EXTRA if left.extra else What.OTHER_CALL
    call = left.usual if left.skipped else left.made
    times = _times(case, left) if left.skipped == 1 else None
    count = left.skipped or left.extra or 1
    is_repeated = left.before is not None and are_same_line(left.before, left.usual)
    in_run = is_repeated and left.usual.peer is not None  # a collective meets the others' by turn
    return Departed(
        what, (left.rank,), call, count, left.usual, left.rounds, others, times, in_run=in_run
    )


def _times(case: Case, left: LeftRound) -> tuple[int, int] | None:
    """Return how often a rank made a call in sequence, now and usually; None if once."""
    place = left.usual.op, case.stack(left.rank, left.usual)
    before = (one for one in reversed(calls_of(case, left.rank)) if one.t < left.made.t)
    runs = [(at, len(list(run))) for at, run in groupby(one.place for one in before)]
    lengths = [length for at, length in runs if at == place]
    is_in_row = bool(runs) and runs[0][0] == place and len(lengths) > 1
    return (lengths[0], lengths[1]) if is_in_row and lengths[0] < lengths[1] else None


def _due(case: Case, at: Awaited) -> Call | None:
    """Return the call that others await from a rank, from the line that usually makes it."""
    waits = awaited_call(case, at.wait)
    if waits is None or waits.peer is None:
        return waits
    key = at.key
    usual = next((one for one in reversed(calls_of(case, at.rank)) if one.key == key), None)
    call = call_of(case, at.rank, usual) if usual is not None else None
    if call is not None:
        return call
    op = "send" if waits.op == "recv" else "recv"
    return replace(waits, op=op, api=None, peer=at.waiter, site=None, stack=None)
