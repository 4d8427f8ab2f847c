"""``no_sync()`` was entered for other micro-batches on some ranks.

What it means
    A backward() inside ``no_sync()`` sends no gradients, outside it does. Ranks that accumulate
    over another number of micro-batches send them at other times.

Example
    ::

        with nullcontext() if step % accumulate == 0 else model.no_sync():
            model(batch).sum().backward()       # accumulate is 3 on rank 2, else 2

Not to be confused with
    CT508, if a rank skipped a backward().

How to fix it
    Decide about ``no_sync()`` by the step number, with as many micro-batches on every rank.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging import departures
from collectrace.align.judging.departures import Departure
from collectrace.records import Call


class Found(NamedTuple):
    """Iterations that some ranks alone ran inside no_sync()."""

    skipped: Departure
    call: Call
    """What the others sent meanwhile."""
    entered: dict[tuple[int, ...], int]
    """How often the ranks of each side entered it."""


def find(situation: Situation) -> Found | None:
    """Return the iterations that the suspects alone ran inside no_sync()."""
    case, candidate = situation.case, situation.candidate
    found = departures.skipped_iterations(case, candidate, situation.suspects)
    if found is None or candidate.stream is None or found.seq is None:
        return None
    ahead, behind = found.ranks[0], found.others[0]
    call, later = found.calls[0], case.call(ahead, candidate.stream, found.seq)
    last, before = (case.call(rank, candidate.stream, found.seq - 1) for rank in (ahead, behind))
    if later is None or not roles.of(call.role).in_backward:
        return None
    since, first = (last.t, last.iteration or 0) if last is not None else (0, 0)
    inside = _entered(situation, ahead, since, later.t)
    others = _entered(situation, behind, before.t if before is not None else 0, call.t)
    if inside <= others or inside < (later.iteration or 0) - first - 1:
        return None
    counts = {
        tuple(sorted(side.ranks)): _entered(
            situation, side.ranks[0], 0, side.call.t if side.call is not None else 1 << 62
        )
        for side in candidate.sides
        if side.ranks
    }
    return Found(found, call, counts)


def _entered(situation: Situation, rank: int, since: int, until: int) -> int:
    """Return how often a rank entered no_sync() between two moments of its clock."""
    log = situation.case.log(rank)
    times = (one.t for one in (log.no_syncs if log is not None else ()) if one.phase == "entered")
    return sum(since < t <= until for t in times)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for boundaries of no_sync() that differ."""
    told = text.listed(
        [f"{text.ranks(r)} entered it {text.counted(n, 'time')}" for r, n in found.entered.items()]
    )
    return Words(
        f"{text.ranks(situation.suspects)} ran iteration {found.skipped.iteration} inside "
        "no_sync(), others did not",
        (
            (
                "no_sync() was not entered for the same micro-batches on all ranks: up to the "
                f"error {told}."
            ),
            (
                "A backward() inside it sends no gradients, outside it does: since then gradients "
                "of different iterations have met."
            ),
        ),
        (
            (
                "Decide about no_sync() by the step number, with the same number of micro-batches "
                f"on every rank{phrases.line(found.call.site)}; never by the length of a rank's "
                "own data."
            ),
        ),
    )
