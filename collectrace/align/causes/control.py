"""Find what sent ranks to different parts of a framework, for causes of frameworks."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.causes import deciders, phrases, remedies, structure
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.findings import Decision, SourceLine

_TELLING: Final = ("condition", "loop", "handler")


def is_condition(decision: Decision | None) -> bool:
    """Whether a condition decided, possibly inside an expression."""
    if decision is None:
        return False
    return deciders.form(decision) == "condition" or _chooses_by_rank(decision)


def _chooses_by_rank(decision: Decision) -> bool:
    """Whether an expression depends on the rank in its condition: ``f() if rank == 0 else 0``."""
    return deciders.origin(decision) == "rank" and " if " in decision.text.partition("#")[0]


def first(situation: Situation) -> Decision | None:
    """Return the condition, loop or handler that most probably decided; None: not known."""
    ranked = deciders.ranked(situation)
    telling = (o for o in ranked if deciders.form(o) in _TELLING or _chooses_by_rank(o))
    return next(telling, None)


def lets_one_side(
    situation: Situation, decision: Decision, mine: NextCall, other: NextCall
) -> bool:
    """Whether a condition let only one side make its call: inside it, or behind its return."""
    if decision.library is not None:
        return False
    within = [structure.holds_call(situation, decision, step.stack) for step in (mine, other)]
    if any(within):
        return within == [True, False]
    return structure.around(situation, decision).jump in ("return", "raise")


def moved(situation: Situation, mine: NextCall) -> tuple[str, ...]:
    """Return ``Move X out of `if ...`.``, with the line inside the condition that led to a call."""
    decision = first(situation)
    if decision is None or mine.call is None:
        return ()
    through = _through(situation, decision, mine)
    return (remedies.moved(decision, phrases.call(mine.call), through),)


def everywhere(situation: Situation, mine: NextCall, what: str) -> str:
    """Return ``Run X on every rank``, with the line inside the condition that led to a call.

    ``what``: the words for the call, if it is itself in the condition, or no condition is known.
    """
    decision = first(situation)
    if decision is None or mine.call is None:
        return f"Run {what} on every rank."
    through = _through(situation, decision, mine)
    return remedies.everywhere(decision, deciders.shown(through) if through else what)


def _through(situation: Situation, decision: Decision, mine: NextCall) -> SourceLine | None:
    """Return the line inside a condition that led to a call; None if it is the call's own."""
    if not structure.holds_call(situation, decision, mine.stack):
        return None
    return structure.calling_line(situation, decision, mine.stack)


def why(situation: Situation) -> tuple[str, ...]:
    """Return what decided, in at most two sentences; empty if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    told = deciders.what_it_did(situation, decision), deciders.depends(decision)
    return tuple(filter(None, told))


def fixes(situation: Situation) -> tuple[str, ...]:
    """Return fixes for what decided; empty if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    return tuple(f"Or {words.lower(one)}" for one in remedies.fixes(situation, decision)[:1])
