"""A rank handled an exception, and made other calls than the ranks that had none.

What it means
    The exception was raised on some ranks only. They skipped the rest of the ``try`` block, or made
    calls in the ``except`` block.

Example
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

from collectrace.align.causes import caught, collectives, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the handler that decided."""
    first = deciders.ranked(situation)[0]
    return first if deciders.form(first) == "handler" else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for an exception that some ranks handled."""
    reasons = deciders.reasons(situation, [found, *deciders.rest(situation, found)])
    fixes = deciders.fixes(situation, found)
    raised = caught.caught(situation)
    if raised:
        first = next(iter(raised.values()))
        fix = f"Fix what raised {first.error}{phrases.line(first.site)}."
        reasons, fixes = (caught.sentence(raised), reasons[0]), (fix, *fixes[:2])
    return Words(collectives.headline(situation), reasons, fixes)
