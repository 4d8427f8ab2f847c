"""Calls that ``backward()`` makes: ranks that skipped it, and the autograd function of a call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from collectrace.align.causes import phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.records import Call


def has_skipped_backward(situation: Situation, maker: NextCall, gone: NextCall) -> bool:
    """Whether a side ran the ``backward()`` that the other is in, and went on without its calls.

    The source must show that only that statement can have decided between their next calls.
    """
    sites = {chains.site(frame) for frame in maker.stack}
    for one in situation.decisions:
        if one.site in sites:
            by_rank = {side.rank: side.did for side in one.sides}
            return by_rank.get(gone.rank) in ("next", "calls", None)
    return False


def autograd_function(case: Case, stack: Sequence[str]) -> str:
    """Return the autograd function with a backward that made a call: ``Sum.backward``; or empty."""
    for frame in stack:
        if chains.method(frame) == "backward" and _is_of_function(case, frame):
            return chains.function(frame).rpartition("<locals>.")[2]
    return ""


def _is_of_function(case: Case, frame: str) -> bool:
    tree, number = case.code.parsed(chains.file(frame)), chains.line(frame)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.lineno < number <= (node.end_lineno or 0):
            names = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
            if any(name.endswith("Function") for name in names):
                return True
    return False


def runs_backward(case: Case, frame: str) -> bool:
    """Whether the statement of a frame calls ``backward()`` or ``torch.autograd.grad()``."""
    tree, number = case.code.parsed(chains.file(frame)), chains.line(frame)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        is_grad = node.func.attr == "backward" or ast.unparse(node.func).endswith("autograd.grad")
        if is_grad and node.lineno <= number <= (node.end_lineno or 0):
            return True
    return False


def rerunning_depth(case: Case, stack: Sequence[str]) -> int:
    """Return the depth of the ``backward()`` frame that reran the call's forward; 0 if none did."""
    outer = enumerate(stack[1:], 1)
    at = next((n for n, frame in outer if runs_backward(case, frame)), 0)
    methods = [chains.method(frame) for frame in stack[:at]]
    return at if "forward" in methods and methods[-1] != "backward" else 0


def is_alone(case: Case, frame: str) -> bool:
    """Whether the statement of a frame calls only ``backward()``, and so runs no forward."""
    text = phrases.text(case, frame)
    return text.endswith(".backward()") and text.count("(") == 1


def skipped_exchanges(situation: Situation, step: NextCall) -> int:
    """Return how many backwards of an all_to_all a rank skipped before its call; 0: none.

    The backward of an exchange sends back what its forward received, so its sizes are swapped.
    autograd runs the backwards in reverse order of the forwards.
    """
    case, stream, call = situation.case, situation.candidate.stream, step.call
    forward = autograd_function(case, step.stack).removesuffix("backward") + "forward"
    waiting: list[Call] = []
    for one in case.before(step.rank, stream, call.seq) if call is not None else ():
        if one is None or one.splits is None:
            continue
        stack = case.stack(step.rank, one)
        if any(chains.function(frame).endswith(forward) for frame in stack):
            waiting.append(one)
        elif autograd_function(case, stack) and waiting and not _mirrors(waiting.pop(), one):
            return 0
    depths = (n for n, one in enumerate(reversed(waiting)) if call and _mirrors(one, call))
    return next(depths, 0)


def _mirrors(forward: Call, backward: Call) -> bool:
    if forward.splits is None or backward.splits is None:
        return False
    return [list(one) for one in forward.splits] == [list(one) for one in backward.splits[::-1]]
