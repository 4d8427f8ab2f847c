"""A rank called a collective on a group that it is not in.

What it means
    On such a rank ``new_group`` returns ``GroupMember.NON_GROUP_MEMBER``. A call with it issues
    nothing: torch only warns. So the members of the group that was meant wait for this rank.

Example
    ::

        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        dist.all_reduce(x, group=groups[rank % 2])      # meant: rank // 2

Not to be confused with
    CT604, if a rank passed another group that it is in.

How to fix it
    Pass the group that has the rank as a member. Choose it by its members, not by an index.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.outside import Ignored, ignored

_MOST: Final = 3
"""Ranks whose group a fix names."""


def find(situation: Situation) -> Ignored | None:
    """Return the calls that torch ignored on the suspects."""
    found = ignored(situation.case, situation.candidate)
    return found if found is not None and {*situation.suspects} <= {*found.ranks} else None


def words(situation: Situation, found: Ignored) -> Words:
    """Return the words for calls that torch ignored."""
    ranks, case = found.ranks, situation.case
    one = found.by_rank[ranks[0]]
    who, where = words_.ranks(ranks), phrases.line(one.site)
    awaited = sorted(found.awaited.items())[:_MOST]
    waits = [f"{wait_cycle.with_group(case, call)} waits for rank {rank}" for rank, call in awaited]
    groups = [(rank, case.comparison.groups.get(call.group)) for rank, call in awaited]
    meant = [f"{words_.group(info)} on rank {rank}" for rank, info in groups if info is not None]
    them = words_.verb(ranks, "it is", "they are")
    return Words(
        f"{who} called {one.op}{where} on a group that {them} not in",
        (
            f"{words_.upper(who)} passed a group without {words_.verb(ranks, 'it', 'them')} as a "
            "member: torch ignored that call, with a warning.",
            f"So {words_.listed(waits)}.",
        ),
        (f"Pass the group that has the rank as a member{where}: {words_.listed(meant)}.",),
        undecided=True,
    )
