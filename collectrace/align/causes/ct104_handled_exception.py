"""A rank handled an exception, and made other calls than the ranks that had none.

What it means
    The exception was raised on some ranks only. They skipped the rest of the ``try`` block, or made
    calls in the ``except`` block.

Example:
    ::

        try:
            load(shard)             # raises on rank 1
            dist.barrier()          # rank 1 never gets here
        except OSError:
            pass

Not to be confused with
    CT302, if nobody handled the exception and the rank ended.

How to fix it
    Share an error flag behind the ``try`` block, then let all ranks do the same.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the handler that decided."""
    first = deciders.ranked(situation)[0]
    return first if deciders.form(first) == "handler" else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for an exception that some ranks handled."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        deciders.fixes(situation, found),
    )
