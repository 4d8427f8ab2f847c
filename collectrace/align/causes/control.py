"""What decided that ranks ran other parts of a framework, as causes of frameworks tell it."""

from __future__ import annotations

from collectrace import words
from collectrace.align.causes import deciders
from collectrace.align.causes.situation import Situation
from collectrace.findings import Decision


def first(situation: Situation) -> Decision | None:
    """Return the condition, loop or handler that most probably decided; None: none is known."""
    ranked = deciders.ranked(situation)
    return next((one for one in ranked if deciders.form(one) in _TELLING), None)


_TELLING = ("condition", "loop", "handler")


def why(situation: Situation) -> tuple[str, ...]:
    """Return what decided, in at most two sentences; nothing if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    return deciders.what_it_did(situation, decision), deciders.ORIGINS[deciders.origin(decision)]


def fixes(situation: Situation) -> tuple[str, ...]:
    """Return what to change about what decided; nothing if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    if deciders.origin(decision) == "rank" and deciders.form(decision) == "condition":
        return (
            (
                f"Or move it out of {deciders.quoted(decision)}: make the call on every rank, or on "
                "none."
            ),
        )
    return tuple(f"Or {words.lower(one)}" for one in deciders.fixes(situation, decision)[:1])
