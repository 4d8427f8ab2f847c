"""Members of a group that only its members create wait for each other.

What it means
    With ``use_local_synchronization=True`` only the members call ``new_group``. Each waits until
    all have requested the same group. torch names such a group by its members and by the number of
    groups that the rank is in. So all members must have been in the same number of groups.

Example
    ::

        for pair in my_pairs:           # in another order on each rank
            dist.new_group(pair, use_local_synchronization=True)

Not to be confused with
    CT602, if every rank has to create the group.

How to fix it
    Omit ``use_local_synchronization``, and let every rank create all groups in one sorted order.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import group_requests, wait_cycle
from collectrace.align.causes.group_requests import Requests
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Group

_LOCAL: Final = (
    "With use_local_synchronization=True the members make a group among themselves: each waits in "
    "new_group until all have asked for the same group."
)
_NAMED: Final = (
    "torch names such a group by its members and by how many groups the rank is in: so the names "
    "differ, and each rank waits for a group that the other does not know."
)
_EVERY: Final = (
    "Leave use_local_synchronization out, and let every rank call new_group for every group in the "
    "same order, members or not"
)

Found = Requests | tuple[Group, ...]
"""The requests of the members, or the groups of a cycle in which ranks wait."""


def find(situation: Situation) -> Found | None:
    """Return why the members of a group do not meet."""
    asked = [situation.case.asked(edge.waiting) for edge in situation.candidate.cycle]
    groups = tuple(group for group in asked if group is not None)
    if groups and len(groups) == len(asked):
        return groups
    found = group_requests.requests(situation)
    return found if found is not None and found.is_local else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for members that do not meet."""
    if isinstance(found, Requests):
        headline, why = group_requests.headline(situation, found), [_LOCAL]
        if len({tuple(group.ranks) for _, group in found.asked}) == 1 < len(found.asked):
            who = words_.ranks(rank for ranks, _ in found.asked for rank in ranks)
            group = wait_cycle.creation(found.asked[0][1])
            headline = f"{who} wait for each other in {group}: torch gave it another name on each"
            why = [_made_before(situation, found), _LOCAL, _NAMED]
        return Words(
            headline,
            tuple(why),
            (
                f"{_EVERY}.",
                "Or let all members of a group pass the same ranks, and have made the same number "
                "of groups before.",
            ),
        )
    groups = sorted({tuple(sorted(group.ranks)) for group in found})
    listed = words_.listed([f"new_group({list(one)})" for one in groups[: wait_cycle.MOST]])
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    return Words(
        f"{who} disagree: each waits in new_group for another group, in a cycle",
        (wait_cycle.waits(situation), _LOCAL),
        (
            f"{_EVERY}, sorted: {listed}.",
            "Or create them in steps in which no rank is in two groups, the same steps on every "
            "rank.",
        ),
    )


def _made_before(situation: Situation, found: Requests) -> str:
    """Return a sentence on the groups that the ranks had asked for before."""
    told = []
    for ranks, group in found.asked:
        log = situation.case.log(ranks[0])
        earlier = [
            wait_cycle.creation(one)
            for one in (log.groups if log is not None else ())
            if one.phase == "asked" and 0 < one.ordinal < group.ordinal
        ]
        some = words_.listed(earlier[: wait_cycle.MOST]) if earlier else "no group"
        told.append(f"{words_.ranks(ranks)} had made {some}")
    return words_.upper(f"before it, {words_.listed(told)}.")
