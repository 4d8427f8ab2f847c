"""A condition sent some ranks past a call that the others made.

What it means
    The condition tests the rank, or its value differs between ranks. The value may depend on the
    rank's data, a clock, a random number, a file, or a result that only a root got.

Example
    ::

        if dist.get_rank() == 0:
            dist.barrier()          # only rank 0 waits here

Not to be confused with
    CT103, if a loop had a different length. CT106, if the condition tests the items of a loop. A
    leader and its followers may make the same call from two branches. That is correct.

How to fix it
    Move the call out of a condition on the rank. If it depends on data, agree first: reduce its
    value over all ranks, then branch.
"""

from __future__ import annotations

from collectrace.align.causes import deciders, remedies
from collectrace.align.causes.situation import Situation
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the condition that decided."""
    return deciders.first(situation, "condition")


words = remedies.explained
