"""A loop had more iterations on some ranks than on others.

What it means
    Each iteration makes collectives. A rank that left the loop earlier makes none of them, and the
    others wait for it.

Example
    ::

        for batch in shard:         # 9 batches on rank 1, 10 on the others
            dist.all_reduce(batch)

Not to be confused with
    CT204, if the loop runs over the batches of a DataLoader. CT102, if a condition inside the loop
    ended it.

How to fix it
    Agree on the number of iterations before the loop.
"""

from __future__ import annotations

from collectrace.align.causes import deciders, remedies
from collectrace.align.causes.situation import Situation
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the loop that decided."""
    return deciders.first(situation, "loop")


words = remedies.explained
