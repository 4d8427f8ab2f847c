"""Find in the source what can have led a rank from one of its calls to another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from collectrace.align.code import decide
from collectrace.align.code.between import Finished, Side
from collectrace.align.code.decisions import Answer, Decision
from collectrace.align.code.files import Frame, Function, Gap
from collectrace.align.code.names import How
from collectrace.align.code.origins import Origin, is_rank
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import LeftRound


class At(NamedTuple):
    """A call of a rank: its op, and the user's frames above it, innermost first."""

    op: str
    stack: tuple[str, ...]


def deciding_statements(
    case: Case, ranks: tuple[int, int], before: At | None, made: At | None, usual: At
) -> Answer:
    """Return what can have led a rank to its next call instead of the one that was to follow.

    Args:
        case: the run.
        ranks: the rank that made ``made``, and the one that made ``usual``; may be equal.
        before: the call before both; None: there was none.
        made: what the rank did; None: it finished.
        usual: what was to follow.

    """
    last = _frames(before) if before is not None else ()
    here = _frames(made) if made is not None else Finished()
    one = Side(ranks[0], last, here, made.op if made is not None else "", is_direct=True)
    two = Side(ranks[1], last, _frames(usual), usual.op, is_direct=True)
    found = decide.decide(case.program, one, two)
    agreed = [one for one in found.decisions if one.origins == (Origin.AGREED,)]
    kept = tuple(one for one in found.decisions if one not in agreed)
    return replace(found, decisions=kept, dropped=(*found.dropped, *agreed))


def _frames(at: At) -> Stack:
    """Return the frames of a call, or only its line if no stack is known."""
    return frames.parse_stack(at.stack) or frames.parse_sites(at.stack[:1])


def statements_of_departure(case: Case, left: LeftRound) -> Answer:
    """Return what can have led a rank out of its usual iteration."""
    before, made, usual = (
        At(call.op, case.frames_or_line(left.rank, call)) if call is not None else None
        for call in (left.before, left.made, left.usual)
    )
    return deciding_statements(case, (left.rank, left.rank), before, made, usual or At("", ()))


SEEN: Final = frozenset({Gap.EARLIER})
"""Gaps of an answer that hide nothing but decisions on agreed values."""


def is_planned(case: Case, rank: int, answer: Answer) -> bool:
    """Whether nothing local to a rank decided: only constants, or a table common to all ranks."""
    if not answer.decisions:
        return bool(answer.dropped)
    return any(_reads_table(case, rank, one) for one in answer.decisions)


def shares_by_rank(decision: Decision) -> bool:
    """Whether a decision divides work by rank: a loop or comparison with the rank."""
    parts = [*ast.walk(_parsed(decision))]
    return any(isinstance(one, ast.For | _ORDERS) for one in parts) and any(
        is_rank(getattr(one, "id", getattr(one, "attr", ""))) for one in parts
    )


def depends_on_message(decision: Decision) -> bool:
    """Whether a decision is a condition on a received message, and not also on the rank."""
    is_loop = any(isinstance(one, ast.For) for one in ast.walk(_parsed(decision)))
    return decision.origin is Origin.RECEIVED and not is_loop


_ORDERS: Final = ast.Lt | ast.LtE | ast.Gt | ast.GtE


def has_other_branch(case: Case, rank: int, decision: Decision) -> bool:
    """Whether the function has another condition on the rank, or another branch of it.

    The other end of a message may be there.
    """
    at = Frame(decision.site.path, decision.site.line, decision.function)
    function = case.program.files.function(rank, at)
    if isinstance(function, Gap):
        return True
    tests = [one for one in ast.walk(function.tree) if isinstance(one, ast.If | ast.IfExp)]
    own = [one for one in tests if isinstance(one, ast.If) and one.lineno == decision.site.line]
    inside = {id(node) for one in own for node in ast.walk(one)}
    others = (one for one in tests if id(one) not in inside)
    return any(one.orelse for one in own) or any(
        is_rank(getattr(node, "id", getattr(node, "attr", "")))
        for one in others
        for node in ast.walk(one.test)
    )


def _reads_table(case: Case, rank: int, decision: Decision) -> bool:
    """Whether a decision reads a table that is a literal of the file, and never changed."""
    program = case.program
    at = Frame(decision.site.path, decision.site.line, decision.function)
    function = program.files.function(rank, at)
    if isinstance(function, Gap):
        return False
    module = next(one for one in _around(function) if one.parent is None)
    changed = {name for one in _around(function) for name in program.changed(one)}
    known = program.globals(module)
    names = {one.id for one in ast.walk(_parsed(decision)) if isinstance(one, ast.Name)}
    return any(
        len(bound) == 1 and bound[0].how is How.VALUE and _is_table(bound[0].value)
        for bound in (known.get(name, ()) for name in names - changed)
    )


def _around(function: Function) -> Iterator[Function]:
    at: Function | None = function
    while at is not None:
        yield at
        at = at.parent


def _is_table(value: ast.expr | None) -> bool:
    if value is None:
        return False
    try:
        return isinstance(ast.literal_eval(value), dict | list | set | tuple)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False


def _parsed(decision: Decision) -> ast.AST:
    """Return the tree of a decision's line, as far as it parses as a statement."""
    head = decision.text.partition("#")[0].rstrip().removeprefix("el")
    try:
        return ast.parse(f"{head} pass" if head.endswith(":") else head)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
