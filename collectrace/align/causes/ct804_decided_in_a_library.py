"""A statement of a library decided, by something that is not the same on all ranks.

What it means
    The script's own code ran alike. A condition or a loop of a framework sent the ranks different
    ways: it read a flag that the script had set on one rank only, or went through a list that has
    another length there.

Example
    ::

        if trainer.is_global_zero:
            trainer.should_stop = True      # Lightning's loop reads it on each rank

Not to be confused with
    CT101 and CT102, if a statement of the script decided.

How to fix it
    Give the library the same value on every rank.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the statement of a library that decided, if none of the script's own can have."""
    first = deciders.ranked(situation)[0]
    telling = deciders.form(first) in ("condition", "loop")
    return first if first.library is not None and telling else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for a statement of a library."""
    library, said = found.library or "the library", deciders.quoted(found)
    return Words(
        collectives.headline(situation),
        (
            f"The script's own code shows no difference: {said} of {library} decided.",
            deciders.what_it_did(situation, found),
        ),
        (
            f"Give {library} the same value on every rank for what {said} reads: set it on every "
            "rank, or agree on it first (all_reduce), not under a condition on the rank.",
        ),
    )
