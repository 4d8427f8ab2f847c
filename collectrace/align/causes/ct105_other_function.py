"""One line called different functions on different ranks, and these make different calls.

What it means
    The line calls what a table, an argument or an attribute holds. That was not the same on all
    ranks.

Example
    ::

        STAGES[plan[step]](batch)   # evaluate() on rank 0, train() on rank 1

Not to be confused with
    CT102, if a condition chose the function.

How to fix it
    Give the line the same function on every rank.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the line that called different functions."""
    first = deciders.ranked(situation)[0]
    return first if deciders.form(first) == "dispatch" else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for a line that calls different functions."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        deciders.fixes(situation, found),
    )
