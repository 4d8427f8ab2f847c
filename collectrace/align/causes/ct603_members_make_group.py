"""Members of a group that is made by its members only wait for each other.

What it means
    With ``use_local_synchronization=True`` only the members call ``new_group``. Each of them waits
    until all have asked for the same group. torch names such a group by its members and by the
    number of groups that the rank is in. So members must be in equally many groups before.

Example
    ::

        for pair in my_pairs:           # in another order on each rank
            dist.new_group(pair, use_local_synchronization=True)

Not to be confused with
    CT602, if every rank has to create the group.

How to fix it
    Leave ``use_local_synchronization`` out, and let every rank create all groups in one sorted
    order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import group_requests, wait_cycle
from collectrace.align.causes.group_requests import Requests
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.case import Case
from collectrace.records import Group

_LOCAL: Final = (
    "With use_local_synchronization=True the members make a group among themselves: each waits in "
    "new_group until all have asked for the same group."
)
_EVERY: Final = (
    "Leave use_local_synchronization out, and let every rank call new_group for every group in the "
    "same order, members or not"
)


@dataclass(frozen=True, slots=True)
class Made:
    """How members do not meet."""

    requests: Requests | None = None
    """What they asked for; None: each waits in another group of a cycle."""
    cycle: tuple[Group, ...] = ()
    """The groups of the cycle."""
    names: tuple[tuple[int, Group], tuple[int, Group]] | None = None
    """Two ranks that asked for one group under two names."""


def find(situation: Situation) -> Made | None:
    """Return how members of a group do not meet."""
    cycle = [situation.case.asked(edge.waiting) for edge in situation.candidate.cycle]
    if cycle and None not in cycle:
        return Made(cycle=tuple(group for group in cycle if group is not None))
    found = group_requests.requests(situation)
    if found is None or not found.is_local:
        return None
    (ranks, group), *others = found.asked
    same = next((one for one in others if one[1].ranks == group.ranks), None)
    names = ((ranks[0], group), (same[0][0], same[1])) if same is not None else None
    return Made(found, names=names)


def words(situation: Situation, found: Made) -> Words:
    """Return the words for members that do not meet."""
    if found.names is not None:
        return _names(situation.case, *found.names)
    if found.requests is not None:
        return Words(
            group_requests.headline(situation, found.requests),
            (_LOCAL,),
            (
                (
                    "Call new_group with the same ranks on every member of the group, and create "
                    "groups that members share in the same order on each of them."
                ),
            ),
        )
    groups = sorted({tuple(sorted(group.ranks)) for group in found.cycle})
    listed = words_.listed([f"new_group({list(one)})" for one in groups[: wait_cycle.MOST]])
    who = words_.ranks(edge.waiting.rank for edge in situation.candidate.cycle)
    return Words(
        f"{who} disagree: each waits in new_group for another group, in a cycle",
        (wait_cycle.waits(situation), _LOCAL),
        (
            f"{_EVERY}, sorted: {listed}.",
            (
                "Or create them in steps in which no rank is in two groups, the same steps on "
                "every rank."
            ),
        ),
    )


def _names(case: Case, one: tuple[int, Group], other: tuple[int, Group]) -> Words:
    told, extra = [], []
    for (rank, asked), peer in ((one, other[0]), (other, one[0])):
        made = _others_before(case, rank, peer, asked)
        extra += [wait_cycle.members(group) for group in made]
        if made:
            groups = words_.listed([wait_cycle.creation(group) for group in made])
            told.append(f"rank {rank} had made {groups} before, rank {peer} had not")
    group = one[1]
    first = f": {'; '.join(told)}" if told else ""
    after = f", and after them {words_.listed(extra)}" if extra else ""
    return Words(
        f"{words_.ranks((one[0], other[0]))} disagree: each calls {wait_cycle.creation(group)} by "
        "another name",
        (
            (
                "With use_local_synchronization=True torch names a group by its members and by how "
                f"many groups the rank is in so far, and that differs here{first}."
            ),
        ),
        (
            f"{_EVERY}.",
            (
                "Or make those groups first of which every rank is in equally many, such as "
                f"{wait_cycle.members(group)}{after}."
            ),
        ),
    )


def _others_before(case: Case, rank: int, peer: int, asked: Group) -> list[Group]:
    """Return the groups that a rank was in when it asked for one, and its peer in none of them."""
    mine, theirs = case.log(rank), case.log(peer)
    if mine is None or theirs is None:
        return []
    known = {group.group for group in theirs.groups}
    made: dict[str, Group] = {}
    for group in mine.groups:
        if group.t >= asked.t:
            break
        if group.phase == "destroyed":
            made.pop(group.group, None)
        elif group.phase == "ready" and group.member and group.group not in known:
            made[group.group] = group
    return list(made.values())
