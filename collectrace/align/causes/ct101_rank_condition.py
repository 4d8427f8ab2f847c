"""Some ranks made a call, and others did not, because a condition depends on the rank.

What it means
    A collective stands inside ``if rank == 0:``, or after ``if rank != 0: return``. Every rank of
    the group must make the call, so the ranks that made it wait for the others.

Example
    ::

        if dist.get_rank() == 0:
            dist.barrier()          # only rank 0 waits here

Not to be confused with
    CT102, if the condition depends on data. A leader and its followers may make the same call from
    two branches of one condition: that is no error.

How to fix it
    Move the call out of the condition, or let the other ranks make it, too.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the condition on the rank that decided."""
    first = deciders.ranked(situation)[0]
    is_condition = deciders.form(first) == "condition" and deciders.is_rank_test(first)
    return first if is_condition else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for a condition on the rank."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        deciders.fixes(situation, found),
    )
