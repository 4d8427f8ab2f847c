"""Find how the calls of a finding relate to a statement that decided.

A call may be inside a branch of the statement, or behind it, where a jump in a branch skips it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.code.between import Side as Compared
from collectrace.align.code.files import Frame, Function, Gap, statements
from collectrace.align.code.graph import called_name
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import LeftRound, are_same_line
from collectrace.align.reading import chains
from collectrace.findings import Decision, Side, SourceLine
from collectrace.records import Call

Jump = Literal["return", "break", "continue", "raise"]

_JUMPS: Final[dict[type[ast.stmt], Jump]] = {
    ast.Return: "return", ast.Break: "break", ast.Continue: "continue", ast.Raise: "raise",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Around:
    """A statement that decided, and the calls in and behind it."""

    inside: tuple[tuple[Side, Call], ...] = ()
    """The sides whose call is in a branch of the statement, with the call."""
    outside: tuple[tuple[Side, Call], ...] = ()
    """The sides whose call is elsewhere, with the call."""
    jump: Jump | None = None
    """How a branch skips the code behind the statement; None: it does not."""
    branches: int = 0
    """Number of branches with a call of the finding."""
    reorders: bool = False
    """Its branches call the same functions, by name, in different orders."""
    is_else: bool = False
    """The first call inside is in its ``else``; if none is inside, the jump is."""
    leaves: bool = False
    """The branch of the first call inside ends with a jump."""


def around(situation: Situation, decision: Decision) -> Around:
    """Return where the calls of a finding are relative to a decision."""
    found = _statement(situation, decision)
    if found is None:
        return Around(outside=tuple(situation.called))
    function, node = found
    parts = list(_parts(node))
    inside: list[tuple[Side, Call]] = []
    outside: list[tuple[Side, Call]] = []
    held: set[int | None] = set()
    for side, call in situation.called:
        line = _line_of(function, side.stack or ())
        part = next((n for n, those in enumerate(parts) if line and _holds(those, line)), None)
        (outside if part is None else inside).append((side, call))
        held.add(part)
    ends = [(n, _JUMPS.get(type(those[-1]))) for n, those in enumerate(parts)]
    jumps = [(n, jump) for n, jump in ends if jump is not None]
    taken = held - {None} or {n for n, _ in jumps[:1]}
    return Around(
        tuple(inside), tuple(outside), jumps[0][1] if jumps else None,
        len(held - {None}), _reorders(parts), taken == {1} and isinstance(node, ast.If),
        bool(held & {n for n, _ in jumps}),
    )  # fmt: skip


def calling_line(
    situation: Situation, decision: Decision, stack: Sequence[str]
) -> SourceLine | None:
    """Return the line of a decision's function from which a call was made.

    None if the call itself is there or in the decision, or if the function is not on the stack.
    """
    scope = chains.file(decision.site), decision.function
    frame = next((one for one in stack[1:] if chains.scope(one) == scope), "")
    is_other = chains.site(frame) not in (decision.site, *map(chains.site, stack[:1]))
    text = phrases.text(situation.case, frame)
    return SourceLine(site=chains.site(frame), text=text) if frame and is_other else None


def is_in_function(situation: Situation, decision: Decision, stack: Sequence[str]) -> bool:
    """Whether a call was made in the function of a statement, or from there."""
    found = _statement(situation, decision)
    return found is not None and _line_of(found[0], stack) > 0


def is_nested(situation: Situation, decision: Decision) -> bool:
    """Whether another decision, except a loop, contains a decision: the outer one came first."""
    line = chains.split(decision.site)[1]
    for other in situation.decisions:
        if other is decision or other.function != decision.function:
            continue
        found = _statement(situation, other)
        if found is None or isinstance(found[1], _LOOPS):
            continue
        if any(_holds(block, line) for block in _parts(found[1])):
            return True
    return False


OF_MODEL: Final = re.compile(r"\.(named_)?(parameters|buffers|modules|children)\(")
"""A loop over parts of a model, which is usually built alike on all ranks."""

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


def _statement(situation: Situation, decision: Decision) -> tuple[Function, ast.stmt] | None:
    """Return the statement of a decision, and its function; None if the source is not known."""
    return _statement_at(situation.case, decision.sides[0].rank, _frame(decision))


@once
def _statement_at(case: Case, rank: int, frame: Frame) -> tuple[Function, ast.stmt] | None:
    function = case.program.files.function(rank, frame)
    if isinstance(function, Gap):
        return None
    here = [
        one
        for one in _statements(function)
        if frame.line in (one.lineno, *(h.lineno for h in getattr(one, "handlers", ())))
    ]
    return (function, here[0]) if here else None


def has_left_loop(situation: Situation) -> bool:
    """Whether a statement made the suspects leave a loop that the others are still in.

    A rank that is compared with itself is still in it in its earlier iteration.
    """
    found = [one for one in situation.decisions if _may_lead(one) and not OF_MODEL.search(one.text)]
    pair = situation.pair
    if pair is None or not found:
        return False
    gone, inside = pair.one, pair.two
    if gone.rank not in situation.suspects:
        gone, inside = inside, gone
    return _has_left(situation, gone, inside, found) or (
        pair.is_of_one_rank and _has_left(situation, inside, gone, found)
    )


def _has_left(
    situation: Situation, gone: Compared, inside: Compared, found: Sequence[Decision]
) -> bool:
    for function, loop in _loops_around(situation, inside.rank, inside.stack):
        deciding = [line for one in found if (line := _line_of(function, [_frame(one)]))]
        lines = [_line_of(function, gone.last), *deciding]
        behind = _line_of(function, gone.stack)  # 0: it has left the function too
        is_within = bool(deciding) and all(loop.lineno <= line <= _end(loop) for line in lines)
        if is_within and not 0 < behind <= _end(loop):
            return True
    return False


def blocked_elsewhere(situation: Situation, decision: Decision) -> tuple[int, ...]:
    """Return the ranks in a branch that does not lead to a statement, sorted.

    They would block an agreement at the statement. Empty if it is not known which ranks reached it.
    """
    here = _frame(decision)
    # The outcome of one side implies that of the other, or a rank is compared with itself.
    is_sure = decision.strength == "only" or len({side.rank for side in decision.sides}) == 1
    came = {side.rank for side in decision.sides if side.did is not None or is_sure}
    stacks = [
        (side.ranks, [Frame.parse(one) for one in side.stack or ()])
        for side in situation.candidate.sides
    ]
    way = next((_callers(here, stack) for ranks, stack in stacks if came & {*ranks}), None)
    return tuple(
        sorted(
            rank
            for ranks, stack in stacks if way is not None and not came & {*ranks}
            if any(_are_apart(situation, ranks[0], one, stack) for one in (here, *way))
            for rank in ranks
        )
    )  # fmt: skip


def is_waited_in(situation: Situation, handler: Decision) -> bool:
    """Whether a rank waits in the ``try`` block of a handler, and so does not reach the handler."""
    return bool(_tried(situation, handler)[0])


def left_try(situation: Situation, handler: Decision) -> tuple[int, ...]:
    """Return the ranks outside of the ``try`` block of a handler if others are in it; sorted.

    Empty if a loop led the others back to it: then the exception may be theirs.
    """
    inside, outside = _tried(situation, handler)
    is_first = bool(inside) and tried_again(situation, handler) is None
    return tuple(sorted(outside)) if is_first else ()


def _tried(situation: Situation, handler: Decision) -> tuple[list[int], list[int]]:
    """Return the ranks with a call in the ``try`` block of a handler, and the others."""
    found, inside, outside = _statement(situation, handler), list[int](), list[int]()
    if found is None or not isinstance(block := found[1], ast.Try):
        return inside, outside
    for side in situation.candidate.sides:
        line = _line_of(found[0], side.stack or ())
        (inside if line and _holds(block.body, line) else outside).extend(side.ranks)
    return inside, outside


def is_in_handler(situation: Situation, handler: Decision, stack: Sequence[str]) -> bool:
    """Whether a call was made in the block of a handler, or from there."""
    found, line = _statement(situation, handler), chains.split(handler.site)[1]
    scope = chains.file(handler.site), handler.function
    # The function may have called itself from the handler.
    lines = [chains.line(frame) for frame in stack if chains.scope(frame) == scope]
    return found is not None and any(
        _holds(one.body, at)
        for one in getattr(found[1], "handlers", ())
        for at in lines
        if one.lineno == line
    )


def tried_again(situation: Situation, handler: Decision) -> tuple[Side, Call, str] | None:
    """Return the only side that a loop led back to the ``try`` block of a handler.

    Returns its call also, and the loop's line, as ``path:line``. The side made that call before,
    and no other loop explains that.
    """
    found, again = _statement(situation, handler), list[tuple[Side, Call, str]]()
    if found is None or not isinstance(block := found[1], ast.Try):
        return None
    for side, call in around(situation, handler).inside:
        stack, stream = side.stack or (), situation.candidate.stream
        for function, loop in islice(_loops_around(situation, side.ranks[0], stack), 1):
            before = situation.case.before(side.ranks[0], stream, call.seq)
            if (
                function is found[0]
                and loop.lineno < block.lineno
                and _holds(block.body, _line_of(function, stack))
                and _ends_by_success(loop, block)
                and any(one is not None and are_same_line(one, call) for one in before)
            ):
                again.append((side, call, f"{function.file.path}:{loop.lineno}"))
    return again[0] if len(again) == 1 else None


def _ends_by_success(loop: _Loop, block: ast.Try) -> bool:
    """Whether a loop around a ``try`` block tries again: it ends after a success, or by its test.

    Otherwise it goes on to its next item, whether or not the block raised.
    """
    handled = {id(node) for one in block.handlers for node in ast.walk(one)}
    ends = (node for node in ast.walk(loop) if isinstance(node, ast.Break | ast.Return))
    return isinstance(loop, ast.While) or any(id(node) not in handled for node in ends)


_Loop = ast.For | ast.AsyncFor | ast.While


def _statements(function: Function) -> Iterator[ast.stmt]:
    body = getattr(function.tree, "body", ())  # of a lambda it is an expression
    return statements(body if isinstance(body, list) else ())


def _loops(function: Function) -> list[_Loop]:
    return [one for one in ast.walk(function.tree) if isinstance(one, _LOOPS)]


def _callers(here: Frame, stack: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames that called the function of a line, or the whole stack if it returned."""
    inside = [(one.path, one.function) for one in stack]
    at = (here.path, here.function)
    return stack[inside.index(at) + 1 :] if at in inside else stack


def _are_apart(situation: Situation, rank: int, frame: Frame, stack: Sequence[Frame]) -> bool:
    """Whether a stack is in another branch of a frame's function than the frame."""
    function = situation.case.program.files.function(rank, frame)
    if isinstance(function, Gap) or not (line := _line_of(function, stack)):
        return False
    for one in _statements(function):
        if isinstance(one, ast.If | ast.Match):
            held = [[_holds(part, at) for part in _parts(one)] for at in (frame.line, line)]
            if all(map(any, held)) and held[0] != held[1]:
                return True
    return False


def _end(loop: _Loop) -> int:
    return loop.body[-1].end_lineno or 0


def _line_of(function: Function, stack: Sequence[Frame | str]) -> int:
    """Return the line of a stack in a function; 0 if the stack is not in it."""
    where = function.file.path, function.qualified
    return next((one.line for one in _frames(stack) if (one.path, one.function) == where), 0)


def _frames(stack: Sequence[Frame | str]) -> Iterator[Frame]:
    return (Frame.parse(one) if isinstance(one, str) else one for one in stack)


def _frame(decision: Decision) -> Frame:
    return Frame(*chains.split(decision.site), decision.function)


def _may_lead(decision: Decision) -> bool:
    """Whether a decision selects what runs next, and its values do not exclude that."""
    ways = {side.did for side in decision.sides} - {None}
    return decision.strength != "equal" and not ways & {"next", "value"}


def _parts(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse"):
        if part := getattr(node, name, None):
            yield part
    for one in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield one.body


def _holds(block: Sequence[ast.stmt], line: int) -> bool:
    return block[0].lineno <= line <= (block[-1].end_lineno or block[-1].lineno)


def _reorders(parts: Sequence[Sequence[ast.stmt]]) -> bool:
    """Whether two branches call functions with the same names in different orders."""
    names = [
        [called_name(node) for one in part for node in ast.walk(one) if isinstance(node, ast.Call)]
        for part in parts
    ]
    return len(names) == 2 and names[0] != names[1] and sorted(names[0]) == sorted(names[1])


def _loops_around(
    situation: Situation, rank: int, stack: Sequence[Frame | str]
) -> Iterator[tuple[Function, _Loop]]:
    """Yield the loops around a call, innermost first, each with its function."""
    for frame in _frames(stack):
        function = situation.case.program.files.function(rank, frame)
        if not isinstance(function, Gap):
            around = [one for one in _loops(function) if one.lineno < frame.line <= _end(one)]
            yield from ((function, one) for one in sorted(around, key=lambda one: -one.lineno))


def is_outside_loop(situation: Situation, left: LeftRound) -> bool:
    """Whether the call that left an iteration is outside of the innermost loop around the usual."""
    made, usual = (situation.case.stack(left.rank, one) for one in (left.made, left.usual))
    for function, loop in _loops_around(situation, left.rank, usual):
        return not loop.lineno <= _line_of(function, made) <= _end(loop)
    return False


def left_by_jump(situation: Situation, decision: Decision) -> tuple[int, ...]:
    """Return the ranks that may have taken a jump: others are at a call that it skips, not they."""
    function, node = _statement(situation, decision) or (None, None)
    if function is None or node is None:
        return ()
    ends = [_end(one) for one in _loops(function) if one.lineno < node.lineno <= _end(one)]
    leaves_all = any(isinstance(part[-1], ast.Return | ast.Raise) for part in _parts(node))
    end = min(ends) if ends and not leaves_all else sys.maxsize
    made = [(side.ranks, _line_of(function, side.stack or ())) for side, _ in situation.called]
    gone = [ranks for ranks, line in made if not node.lineno < line <= end]
    return tuple(rank for ranks in gone for rank in ranks) if len(gone) < len(made) else ()


def may_skip(situation: Situation, loop: Decision, stack: Sequence[str]) -> SourceLine | None:
    """Return the condition in a loop that may skip a call in its body; None: nothing does."""
    function, node = _statement(situation, loop) or (None, None)
    if function is None or not isinstance(node, _LOOPS):
        return None
    line = _line_of(function, stack)
    for one in statements(node.body):
        parts = list(_parts(one)) if isinstance(one, ast.If) else []
        jumps = one.lineno < line and any(isinstance(part[-1], ast.Continue) for part in parts)
        if jumps or any(_holds(part, line) for part in parts):
            site = f"{function.file.path}:{one.lineno}"
            return SourceLine(site=site, text=function.file.whole_line(one.lineno))
    return None


def is_in_loop(situation: Situation, loop: Decision, stack: Sequence[str]) -> bool:
    """Whether a call was made in the body of a loop that decided."""
    found = _statement(situation, loop)
    if found is None or not isinstance(found[1], _LOOPS):
        return False
    return found[1].lineno < _line_of(found[0], stack) <= _end(found[1])


def is_innermost(situation: Situation, loop: Decision, rank: int, stack: Sequence[str]) -> bool:
    """Whether no other loop is around a call inside this one, except loops of a fixed length.

    Those go over items written in place: ``for view in (batch, -batch):``.
    """
    for function, one in _loops_around(situation, rank, stack):
        if (function.file.path, one.lineno) == chains.split(loop.site):
            return True
        if not (isinstance(one, ast.For) and isinstance(one.iter, ast.List | ast.Tuple)):
            return False
    return False


def holds_call(situation: Situation, decision: Decision, stack: Sequence[str]) -> bool:
    """Whether a statement contains the line of a call's stack in its function."""
    found = _statement(situation, decision)
    if found is None:
        return False
    return found[1].lineno <= _line_of(found[0], stack) <= (found[1].end_lineno or 0)


def is_behind(decision: Decision, stack: Sequence[str]) -> bool:
    """Whether a statement is in a function of a stack, behind the stack's line there."""
    file, line = chains.split(decision.site)
    name = decision.function.rpartition(".")[2]
    return any(
        (chains.file(frame), chains.method(frame)) == (file, name) and chains.line(frame) < line
        for frame in stack
    )
