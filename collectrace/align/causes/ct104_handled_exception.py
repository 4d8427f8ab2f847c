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
    Fix the exception. If a rank may fail alone, share an error flag behind the ``try`` block, and
    let all ranks do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collectrace import words as said
from collectrace.align.causes import caught, collectives, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision
from collectrace.records import Raised


class Found(NamedTuple):
    """Exceptions that were recorded, by rank, and the handler that the source shows."""

    raised: Mapping[int, Raised]
    handler: Decision | None


def find(situation: Situation) -> Found | None:
    """Return the exceptions and their handler, if either shows that one decided."""
    raised = caught.caught(situation)
    if situation.kind == "deadlock" and not raised:
        return None
    ranked = deciders.ranked(situation)
    handlers = [one for one in ranked if deciders.form(one) == "handler"]
    if not raised and not (handlers and handlers[0] is ranked[0]):
        return None
    return Found(raised, handlers[0] if handlers else None)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for an exception that some ranks handled."""
    raised, handler = found
    place = f" at {deciders.quoted(handler)}" if handler is not None else ""
    behind = f" behind {deciders.quoted(handler)}" if handler is not None else ""
    flag = (
        f"If a rank may fail alone, share an error flag with all ranks{behind} "
        "(all_reduce with MAX). Then let every rank make the same calls."
    )
    if not raised and handler is not None:
        why = deciders.reasons(situation, [handler, *deciders.rest(situation, handler)])
        look = f"Look for what only some ranks raised{place}. "
        return Words(collectives.headline(situation), why, (look + flag,))
    who, first = said.ranks(raised), raised[min(raised)]
    in_cycle = caught.in_cycle(situation)
    if in_cycle:
        call = in_cycle[min(in_cycle)][1]
        made = phrases.within(situation.case.stack(min(in_cycle), call)) or said.site(
            call.site or ""
        )
        return Words(
            phrases.fitting(
                f"{who} called {phrases.call(call)} while it handled {first.error}; the others did "
                "not",
                f"{who} called {phrases.call(call)} while it handled {first.error}",
            ),
            (
                caught.sentence(dict(raised)),
                f"While it handled that{place}, it called {phrases.name(call)} at {made}. No other "
                "rank raised it, so the others do not make this call.",
            ),
            (f"Fix what {who} raised: {first.error}{phrases.line(first.site)}.", flag),
        )
    return Words(
        collectives.headline(situation),
        (
            caught.sentence(dict(raised)),
            f"{said.upper(who)} handled it{place} and continued.",
            *collectives.silent(situation),
        ),
        (f"Fix what {who} raised: {first.error}{phrases.line(first.site)}.", flag),
    )
