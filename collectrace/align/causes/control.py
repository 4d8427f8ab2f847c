"""Find what sent ranks to different parts of a framework, for causes of frameworks."""

from __future__ import annotations

import ast
from typing import Final

from collectrace import words
from collectrace.align.causes import deciders, phrases, remedies
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.reading import chains
from collectrace.findings import Decision
from collectrace.records import Call

_TELLING: Final = ("condition", "loop", "handler")


def statements(situation: Situation) -> list[Decision]:
    """Return the conditions, loops and handlers that can have decided, most informative first."""
    return [
        one
        for one in deciders.ranked(situation)
        if deciders.form(one) in _TELLING or _chooses_by_rank(one)
    ]


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
    return next(iter(statements(situation)), None)


def lets_one_side(
    situation: Situation, decision: Decision, mine: NextCall, other: NextCall
) -> bool:
    """Whether a condition let only one side make its call: inside it, or behind its return."""
    if decision.library is not None:
        return False
    file, number = chains.split(decision.site)
    tree = situation.case.code.parsed(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.If) and node.lineno == number:
            within = [_within(node, file, step) for step in (mine, other)]
            return bool(within[0]) and not within[1] if any(within) else _returns(node)
    return any(chains.site(frame) == decision.site for frame in mine.stack)


def _within(node: ast.If, file: str, step: NextCall) -> str:
    """Return the line of a call inside a condition, as ``path:line``, or nothing."""
    lines = range(node.lineno + 1, (node.end_lineno or 0) + 1)
    sites = [chains.site(f) for f in step.stack if chains.file(f) == file]
    return next((one for one in sites if chains.split(one)[1] in lines), "")


def _returns(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return | ast.Raise)


def moved(situation: Situation, mine: NextCall) -> tuple[str, ...]:
    """Return ``Move X out of `if ...`.``, with the line inside the condition that led to a call."""
    decision = first(situation)
    if decision is None or mine.call is None:
        return ()
    through = _through(situation, decision, mine, mine.call)
    return (remedies.moved(decision, phrases.call(mine.call), through),)


def everywhere(situation: Situation, mine: NextCall, what: str) -> str:
    """Return ``Run X on every rank``, with the line inside the condition that led to a call.

    ``what``: the words for the call, if it is itself in the condition, or no condition is known.
    """
    decision = first(situation)
    if decision is None or mine.call is None:
        return f"Run {what} on every rank."
    return remedies.everywhere(decision, _through(situation, decision, mine, mine.call) or what)


def _through(situation: Situation, decision: Decision, mine: NextCall, call: Call) -> str:
    """Return the line inside a condition that led to a call; empty if it is the call's own."""
    file, number = chains.split(decision.site)
    tree = situation.case.code.parsed(file)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.If)] if tree is not None else []
    site = next((_within(n, file, mine) for n in nodes if n.lineno == number), "")
    if site in ("", call.site):
        return ""
    return phrases.statement(phrases.text(situation.case, site), site)


def why(situation: Situation) -> tuple[str, ...]:
    """Return what decided, in at most two sentences; empty if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    return tuple(
        filter(None, [deciders.what_it_did(situation, decision), deciders.depends(decision)])
    )


def fixes(situation: Situation) -> tuple[str, ...]:
    """Return fixes for what decided; empty if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    return tuple(f"Or {words.lower(one)}" for one in remedies.fixes(situation, decision)[:1])
