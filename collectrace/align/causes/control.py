"""What decided that ranks ran other parts of a framework, as causes of frameworks tell it."""

from __future__ import annotations

import ast
from typing import Final

from collectrace import words
from collectrace.align.causes import deciders
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.reading import chains
from collectrace.findings import Decision

_TELLING: Final = ("condition", "loop", "handler")
_CERTAIN: Final = ("rank", "exception", "random", "clock")
"""Origins beside which other statements that can have decided are not named."""
_MOST: Final = 2


def telling(situation: Situation) -> list[Decision]:
    """Return the conditions, loops and handlers that can have decided, the most telling first.

    No loops whose length is written in the source.
    """
    return [
        one
        for one in deciders.ranked(situation)
        if deciders.form(one) in _TELLING and not is_fixed(one)
    ]


def first(situation: Situation) -> Decision | None:
    """Return the condition, loop or handler that most probably decided; None: none is known."""
    return next(iter(telling(situation)), None)


def is_fixed(decision: Decision) -> bool:
    """Whether a loop runs over what is written there: ``range(3)``, ``torch.ones(2, 4)``."""
    if deciders.form(decision) != "loop":
        return False
    try:
        node = ast.parse(f"{decision.text.partition('  #')[0].rstrip()} pass").body[0]
    except SyntaxError:
        return False
    items = node.iter if isinstance(node, ast.For) else None
    if isinstance(items, ast.Call):
        return bool(items.args) and all(isinstance(one, ast.Constant) for one in items.args)
    return isinstance(items, ast.List | ast.Tuple)


def holds(situation: Situation, decision: Decision, mine: Step, other: Step) -> bool:
    """Whether a condition holds the call of the one side, or skips that of neither by a jump."""
    file, number = chains.split(decision.site)
    tree = situation.case.code.parsed(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.If) and node.lineno == number:
            within = [_is_within(node, file, step) for step in (mine, other)]
            return within[0] and not within[1] if any(within) else not _jumps_for_others(node)
    return True


def _is_within(node: ast.If, file: str, step: Step) -> bool:
    last = node.end_lineno or 0
    return any(
        chains.file(frame) == file and node.lineno < chains.line(frame) <= last
        for frame in step.stack
    )


def _jumps_for_others(node: ast.If) -> bool:
    """Whether a branch leaves a loop, which both sides may be behind."""
    return isinstance(node.body[-1], ast.Break | ast.Continue)


def why(situation: Situation) -> tuple[str, ...]:
    """Return what decided, in at most two sentences; nothing if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    told = [deciders.what_it_did(situation, decision)]
    others = [one for one in telling(situation)[1 : 1 + _MOST] if one.strength != "equal"]
    is_certain = decision.strength in ("confirmed", "only")
    if deciders.origin(decision) in _CERTAIN or is_certain or not others:
        return (*told, *filter(None, [deciders.depends(decision)]))
    named = words.listed([deciders.quoted(one) for one in others])
    return (*told, f"Or {named} decided: the logs do not show which did.")


def fixes(situation: Situation) -> tuple[str, ...]:
    """Return what to change about what decided; nothing if it is not known."""
    decision = first(situation)
    if decision is None:
        return ()
    return tuple(f"Or {words.lower(one)}" for one in deciders.fixes(situation, decision)[:1])
