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

from typing import NamedTuple

from collectrace import words as said
from collectrace.align.causes import collectives, deciders, handled
from collectrace.align.causes.handled import Handled
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision


class Found(NamedTuple):
    """An exception that was recorded, and the handler that the source shows."""

    handled: Handled | None
    handler: Decision | None


def find(situation: Situation) -> Found | None:
    """Return the exception and its handler, if either shows that one decided."""
    recorded = handled.handled(situation)
    handlers = [one for one in deciders.ranked(situation) if deciders.form(one) == "handler"]
    first = next(iter(deciders.ranked(situation)), None)
    if recorded is None and (first is None or deciders.form(first) != "handler"):
        return None
    return Found(recorded, handlers[0] if handlers else None)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for an exception that some ranks handled."""
    one, handler = found
    place = f" at {deciders.quoted(handler)}" if handler is not None else ""
    flag = (
        f"If a rank may fail alone, share an error flag with all ranks{_behind(handler)} "
        "(all_reduce with MAX). Then let every rank make the same calls."
    )
    if one is None and handler is not None:
        why = deciders.reasons(situation, [handler, *deciders.rest(situation, handler)])
        return Words(collectives.headline(situation), why, (flag,))
    if one is None:
        raise ValueError("neither an exception nor a handler was found")
    who = said.upper(said.ranks(one.ranks))
    went = f"{who} handled it{place} and continued; the other ranks had no exception there."
    return Words(
        collectives.headline(situation),
        (f"{who} raised {one.error}.", went),
        (f"Fix the exception that {said.ranks(one.ranks)} raised: {one.error}.", flag),
    )


def _behind(handler: Decision | None) -> str:
    return f" behind {deciders.quoted(handler)}" if handler is not None else ""
