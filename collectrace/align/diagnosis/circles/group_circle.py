"""Ranks that wait for each other in the making of groups: in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import circle, left_out
from collectrace.align.diagnosis.wording import Wording
from collectrace.align.judging.case import Case
from collectrace.align.ranks.waitgraph import Edge

_MOST_GROUPS: Final = 6
"""Groups that are listed."""


def explain(case: Case, cycle: Sequence[Edge]) -> Wording | None:
    """A circle of ranks that are each in the making of a group; None: of anything else."""
    asked = [case.asked(edge.waiting) for edge in cycle]
    made = {tuple(sorted(group.ranks)): group for group in asked if group is not None}
    if None in asked:
        return None
    groups = [left_out.call(made[members]) for members in sorted(made)][:_MOST_GROUPS]
    first = f"{words.listed(groups)}{', ...' if len(made) > _MOST_GROUPS else ''}"
    return Wording(
        circle.headline(case, cycle),
        f"{circle.steps(case, cycle)} With use_local_synchronization=True the members of a group "
        "make it among themselves: each of them waits in new_group until all have asked for it. "
        "Here none of them has asked for the one that another waits for: each waits in its own.",
        "Make the groups in one order on every rank: leave use_local_synchronization out, and let "
        f"every rank call new_group for every group, members or not, sorted: {first}.\n"
        "Or, with use_local_synchronization=True, in turns in which no rank is in two groups, the "
        "same turns on every rank: torch names such a group by its members and by how many groups "
        "the rank is in so far, which must be as many on all of its members.",
    )
