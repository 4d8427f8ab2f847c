"""A collective is in a function or block that only some ranks enter at this point.

What it means
    Three kinds of code run on one rank while the others do something else:

    - Hooks that a framework calls on one rank while the others wait in a barrier: Lightning's
      ``prepare_data()`` and ``save_checkpoint()`` of a ``CheckpointIO``.
    - Blocks that let one rank go first, while the others wait in a barrier at the entry:
      ``with main_process_first():``.
    - Functions that cache their result and run once in each process, at first use:
      ``functools.cached_property`` and ``cache``. A rank may use one earlier than the others.

Example
    ::

        with accelerator.main_process_first():
            rows = load()
            dist.all_reduce(rows)       # the others are held at the entry

Not to be confused with
    CT102, if the script itself has a condition on the rank.

How to fix it
    Move the collective to a hook that every rank runs, or behind the block. Call a cached function
    once on every rank, before any condition.
"""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, control, phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.code.files import Frame, Function
from collectrace.align.judging import hooks
from collectrace.align.reading import chains
from collectrace.ops import BARRIERS
from collectrace.records import Call

_KEEP: Final = ("cached_property", "cache", "lru_cache")
"""Decorators of functools that cache the result of a function."""


class Entered(NamedTuple):
    """The side that alone is in such code."""

    step: NextCall
    call: Call
    inside: str
    """The hook, block or function that contains the call."""
    why: tuple[str, ...]
    fix: str


def find(situation: Situation) -> Entered | None:
    """Return the only side in a hook, a block that holds the others, or a cached function."""
    return _in_hook(situation) or _in_block(situation) or _in_cache(situation)


def words(_: Situation, found: Entered) -> Words:
    """Return the words for a collective in such code."""
    return Words(
        f"only {found.step.subject} called {phrases.call(found.call)} in {found.inside}",
        found.why,
        (found.fix,),
    )


def _in_hook(situation: Situation) -> Entered | None:
    found = hooks.call_in_hook(situation.case, situation.candidate)
    if found is None:
        return None
    [step] = [s for s in apart.at_finding(situation) if s.ranks == tuple(found.side.ranks)]
    function = f"{chains.function(found.frame)}()"
    why = (
        f"The framework calls {function} on one rank, and the others wait in a barrier until it "
        "has returned."
    )
    fix = f"Make no collective in {function}: move it to {found.hook.instead}."
    return Entered(step, step.call, function, (why,), fix) if step.call is not None else None


def _in_block(situation: Situation) -> Entered | None:
    """Return the side in the body of such a ``with``, if the other waits at its line."""
    sides = apart.at_finding(situation)
    for within, held in (sides, sides[::-1]) if len(sides) == 2 else ():
        if held.call is None or within.call is None or held.call.op not in BARRIERS:
            continue
        inside, line = chains.outermost_apart(within.stack, held.stack)
        if not inside or chains.scope(inside) != chains.scope(line):
            continue
        head = _with_at(situation, line)
        if head is not None and head.lineno < chains.line(inside) <= (head.end_lineno or 0):
            manager = text.brief(ast.unparse(head.items[0].context_expr))
            said = phrases.statement(f"with {manager}:", chains.site(line))
            has = text.verb(within.ranks, "has", "have")
            guard = _guard(head, inside)
            why = (
                f"{said} holds {held.subject} at its entry, in a barrier, until "
                f"{within.subject} {has} left it.",
                f"In that body {within.subject} called {phrases.call(within.call)}{guard}, which "
                f"{held.subject} can reach only after the entry.",
            )
            fix = (
                f"Move {phrases.call(within.call)} after it: keep collectives out of the body of "
                f"{said}, for what one rank does before the others (a download, a cache)."
            )
            return Entered(within, within.call, said, why, fix)
    return None


def _guard(head: ast.With, frame: str) -> str:
    """Return `` inside `if is_new:` (train.py:39)``, the innermost condition in a block."""
    file, line = chains.split(chains.site(frame))
    around = (
        one
        for one in ast.walk(head)
        if isinstance(one, ast.If) and one.body[0].lineno <= line <= (one.end_lineno or 0)
    )
    inner = max(around, key=lambda one: one.lineno, default=None)
    if inner is None:
        return ""
    return (
        f" inside {phrases.statement(f'if {ast.unparse(inner.test)}:', f'{file}:{inner.lineno}')}"
    )


def _with_at(situation: Situation, frame: str) -> ast.With | None:
    """Return the ``with`` statement at a frame's line that lets one rank go first."""
    tree = situation.case.code.parsed(chains.file(frame))
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.With) or node.lineno != chains.line(frame):
            continue
        manager = node.items[0].context_expr
        if isinstance(manager, ast.Call) and ast.unparse(manager.func).lower().endswith("_first"):
            return node
    return None


def _in_cache(situation: Situation) -> Entered | None:
    """Return the side that made its call in a function with a cached result."""
    both = apart.next_calls(situation) if situation.kind != "deadlock" else None
    places = [{chains.scope(frame) for frame in step.stack} for step in both or ()]
    for n, step in enumerate(both or ()):
        for k, frame in enumerate(step.stack):
            if chains.scope(frame) in places[1 - n] or not _is_cached(situation, step.rank, frame):
                continue
            line = phrases.line(chains.site(step.stack[k + 1])) if step.stack[k + 1 :] else ""
            function = f"{chains.function(frame)}()"
            why = (
                f"{function} keeps its result, so only its first use on a rank makes the call: "
                f"{step.subject} came to it{line}, the others come to it at another point.",
                *control.why(situation),
            )
            fix = f"Use {function} once on every rank at the same point, outside of any condition."
            return Entered(step, step.call, function, why, fix) if step.call is not None else None
    return None


def _is_cached(situation: Situation, rank: int, frame: str) -> bool:
    """Whether the function of a frame has a decorator that caches its result."""
    function = situation.case.program.files.function(rank, Frame.parse(frame))
    decorators = function.decorators if isinstance(function, Function) else ()
    called = (ast.unparse(one).partition("(")[0] for one in decorators)
    return any(name.rpartition(".")[2] in _KEEP for name in called)
