"""A rank departed from its usual calls, and now waits in one group while others wait in another.

What it means
    A rank skipped a collective of a group, or made an extra one. The other members wait for it
    there. It waits for them in another group. So none of them can go on.

Example
    ::

        if tokens:
            dist.all_to_all_single(out, x, group=experts)   # skipped on one rank
        dist.all_reduce(loss)                               # where it waits for the others

Not to be confused with
    CT102, if all calls are of one group. CT605, if no rank is seen to have departed.

How to fix it
    Let every rank of the group make the call, with zeros or an empty tensor if it has nothing to
    send. Or decide together to skip it.
"""

from __future__ import annotations

from collectrace.align.causes import departed, departed_words
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Departed | None:
    """Return how a rank departed, if ranks wait for each other in collectives alone."""
    if any(edge.waiting.stream is None for edge in situation.candidate.cycle):
        return None
    return departed.find(situation)


def words(situation: Situation, found: Departed) -> Words:
    """Return the words for a rank that departed in one of several groups."""
    return departed_words.told(situation, found)
