"""A rank came alone, by its rank, to a collective that the others of its group went past."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import Reason, quoted
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.group_by_rank import GroupByRank
from collectrace.align.reading import chains


def reason(case: Case, found: GroupByRank, waits: str) -> Reason:
    """By which condition, and where the others are. ``waits``: who waits for whom, a sentence."""
    passed, group = words.ranks(found.passed), case.comparison.groups[found.call.group]
    made = closed(named(case, found.rank, found.call, brief=True))
    condition = quoted(chains.split(found.site)[0], found.line)
    went = words.verb(found.passed, "has gone", "have gone")
    return Reason(
        f"Rank {found.rank} alone came to {made} under {condition}, which asks for the rank; "
        f"{passed} of {words.group(group)} {went} past it, to "
        f"{named(case, found.passed[0], found.awaited, brief=True)}. So they wait for each other: "
        f"{words.lower(waits)}",
        f"Take {made} out of {condition}: every rank of its group makes the call, and the one that "
        f"wants it uses what comes out.\nIf it is meant for rank {found.rank} only: let it do "
        "without the others, by what it holds itself.",
    )
