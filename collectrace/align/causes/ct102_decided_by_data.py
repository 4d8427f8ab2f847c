"""A condition sent some ranks past a call that the others made.

What it means
    The condition can have another value on each rank: it depends on the data of the rank, a clock,
    a random number, a file, or on something that the source does not show.

Example
    ::

        if loss.isfinite():
            dist.all_reduce(loss)   # skipped on the rank whose loss is nan

Not to be confused with
    CT101, if the condition depends on the rank itself. CT103, if a loop had another length.

How to fix it
    Decide together before the condition: reduce its value over all ranks, then branch.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the condition that decided."""
    first = deciders.ranked(situation)[0]
    return first if deciders.form(first) == "condition" else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for a condition that can differ between ranks."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        deciders.fixes(situation, found),
    )
