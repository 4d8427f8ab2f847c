"""``no_sync()`` was entered for other micro-batches on some ranks.

What it means
    A backward() inside ``no_sync()`` sends no gradients, outside it does. Ranks that accumulate
    over another number of micro-batches send them at other times.

Example:
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
from collectrace.align.causes import phrases, slips
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call


class Found(NamedTuple):
    """Who ran iterations inside no_sync() that the others ran outside."""

    slip: slips.Slip
    entered: dict[tuple[int, ...], int]
    """How often the ranks of each side entered it."""


def find(situation: Situation) -> Found | None:
    """Return the iterations that some ranks alone ran inside no_sync()."""
    found = slips.slip(situation)
    if found is None or not roles.of(found.call.role).in_backward:
        return None
    if entered(situation, found.ahead, found.since, found.until) < len(found.skipped):
        return None
    if entered(situation, found.behind, found.since_behind, found.call.t):
        inside = entered(situation, found.behind, found.since_behind, found.call.t)
        if inside >= entered(situation, found.ahead, found.since, found.until):
            return None
    counts = {
        tuple(sorted(side.ranks)): entered(situation, side.ranks[0], 0, _until(side.call))
        for side in situation.candidate.sides
        if side.ranks
    }
    return Found(found, counts)


def _until(call: Call | None) -> int:
    return call.t if call is not None else 1 << 62


def entered(situation: Situation, rank: int, since: int, until: int) -> int:
    """Return how often a rank entered no_sync() between two moments of its clock."""
    log = situation.case.log(rank)
    times = (one.t for one in (log.no_syncs if log is not None else ()) if one.phase == "entered")
    return sum(since < t <= until for t in times)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for boundaries of no_sync() that differ."""
    who = text.ranks(situation.suspects or (found.slip.ahead,))
    steps = text.listed([str(n) for n in found.slip.skipped[:3]])
    told = text.listed(
        [f"{text.ranks(r)} entered it {text.counted(n, 'time')}" for r, n in found.entered.items()]
    )
    return Words(
        f"{who} ran iteration {steps} inside no_sync(); others sent gradients "
        f"({text.site(found.slip.call.site or '')})",
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
                f"on every rank{phrases.line(found.slip.call.site)}; never by the length of a "
                "rank's own data."
            ),
        ),
    )
