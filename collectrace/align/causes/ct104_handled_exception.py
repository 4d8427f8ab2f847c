"""A rank handled an exception, and then made other calls than the ranks without one.

What it means
    The exception was raised on some ranks only. They skipped the rest of the ``try`` block, or made
    calls in the ``except`` block. If a function of torch raised it, its call had no effect there.

Example
    ::

        try:
            load(shard)             # raises on rank 1
            dist.barrier()          # rank 1 never gets here
        except OSError:
            pass

Not to be confused with
    CT302, if nobody handled the exception and the rank ended. CT306, if the call was refused and
    the rank is one call behind.

How to fix it
    Fix the exception. If one rank may fail alone, all_reduce an error flag after what can raise,
    before the collectives that follow in the ``try`` block. Or move them after the block, and
    all_reduce the flag first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from collectrace import words as said
from collectrace.align.causes import (
    arguments,
    caught,
    collectives,
    deciders,
    phrases,
    remedies,
    structure,
)
from collectrace.align.causes import ct302_absent_rank as ct302
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision
from collectrace.records import Raised

_FLAG: Final = (
    "share an error flag with all ranks (all_reduce with MAX). Then let every rank make the same "
    "calls."
)


class Found(NamedTuple):
    """Exceptions that were recorded, by rank, and the handler that the source shows."""

    raised: Mapping[int, Raised]
    handler: Decision | None


def find(situation: Situation) -> Found | None:
    """Return the exceptions and their handler, if one of them shows that an exception decided.

    A handler alone does not explain the same call with other arguments.
    """
    raised = caught.caught(situation)
    ranked = deciders.ranked(situation)
    handlers = [one for one in ranked if deciders.form(one) == "handler"]
    if raised:
        return Found(raised, handlers[0] if handlers else None)
    if situation.kind == "deadlock" or arguments.are_one_call(situation):
        return None
    return Found(raised, handlers[0]) if handlers and handlers[0] is ranked[0] else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for an exception that some ranks handled."""
    raised, handler = found
    place, flag = "", _FLAG
    if handler is not None:
        place, flag = deciders.quoted(handler), said.lower(remedies.fix(situation, handler))
    last, again = [f"If a rank may fail alone, {flag}"], ""
    headline = collectives.headline(situation)
    if handler is not None and (found_again := structure.tried_again(situation, handler)):
        side, call, loop = found_again
        lead = phrases.quoted(situation.case, loop)
        again = f"{lead} led back to the `try` block: {phrases.made(side.ranks, call)} once more."
        last.insert(0, f"Take {phrases.call(call)} out of what is tried again.")
    inside = caught.in_handler(situation, handler) if handler is not None else {}
    raised = raised or {rank: one for rank, (one, _) in inside.items()}
    if not raised and handler is not None:
        why = deciders.reasons(situation, [handler, *deciders.rest(situation, handler)])
        left = deciders.may_have_left(situation) or structure.left_try(situation, handler)
        whose = deciders.entered(situation, handler) or (said.ranks(left) if left else "some ranks")
        look = f"Find the exception that only {whose} raised and {place} handled. "
        return Words.of(headline, (*why[:1], again, *why[1:]), (look + last[0], *last[1:]))
    who, first = said.ranks(raised), raised[min(raised)]
    then = f"{said.upper(who)} handled it"
    at = f" at {place}" if place else ""
    if inside.keys() == raised.keys() and not again:
        first_call = min(made.seq for _, made in inside.values())
        then = f"While it handled that{at}, it made calls that the other ranks did not"
        at = f", the first of them call {first_call}"
        last.insert(
            0,
            "Make no collective in the `except` block, nor in what it runs again: move them after "
            "the `try` statement, where every rank makes them once.",
        )
    cleanup = [call for side, call in situation.called if {*side.ranks} & {*raised}]
    if handler is not None and cleanup and handler.cleans_up:
        then = f"When that led {who} out of {place}, the cleanup called {phrases.call(cleanup[0])}"
        at = ""
        last.insert(
            0,
            f"Take {phrases.call(cleanup[0])} out of the cleanup, which an exception runs on one "
            "rank alone: make it where every rank comes.",
        )
    for rank, (_, call) in caught.in_cycle(situation).items():
        headline = f"{who} called {phrases.call(call)} while it handled {first.error}"
        stack = phrases.within(situation.case.stack(rank, call)) or said.site(call.site or "")
        then = f"While it handled that{at}, it called {phrases.name(call)} at {stack}"
        at = ". The other ranks do not make this call"
    return Words.of(
        headline,
        (caught.sentence(raised), f"{then}{at}.", again, *collectives.silent(situation)),
        (
            *(hint.fix for hint in ct302.hints(one.message for one in raised.values())),
            f"Fix what raised {first.error} on {who}{phrases.line(first.site)}.",
            *last,
        ),
    )
