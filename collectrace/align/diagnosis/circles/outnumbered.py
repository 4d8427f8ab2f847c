"""A rank alone in one group's collective, while all others are in the other group's: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import at_its_line
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.outnumbered import Outnumbered
from collectrace.records import Call


def reason(case: Case, found: Outnumbered, waits: str) -> Reason:
    """On which side most of either group are. ``waits``: who waits for whom, a sentence."""
    rank, both = found.rank, words.ranks(found.both)
    made = _of_group(case, rank, found.made)
    due = _of_group(case, found.both[0], found.awaited)
    return Reason(
        f"Rank {rank} alone came to {made} first, as it had not done before: {both}, which are in "
        f"that group too, came to {due}, like all others. So they wait for each other: "
        f"{words.lower(waits)}",
        f"Let rank {rank} call {due} before {made}: ranks that are in two groups must "
        "issue the collectives of both in the same order, every rank the same, whatever order its "
        f"own layers, parameters or keys are in.\nIf {made} is meant to come first, {both} must "
        "come to it first as well.",
    )


def _of_group(case: Case, rank: int, call: Call) -> str:
    group = case.comparison.groups[call.group]
    return f"{call.op} of {words.group(group)}{at_its_line(case, rank, call)}"
