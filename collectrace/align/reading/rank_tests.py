"""Conditions that ask for the rank: what else they ask for, and by which names.

They are given as ``number text``, as a ``source`` record has them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Final

from collectrace.align.reading import rank_only, statements
from collectrace.align.reading.bindings import Answer, Bindings, assignments
from collectrace.align.reading.rank_names import RANK, WORLD, is_asked


def asks_alone(line: str) -> bool:
    """Whether a condition only compares the rank with what is named, or written there.

    So it has one outcome on a rank for ever. Of a line that decides itself what stands behind its
    ``if``.
    """
    text = statements.code_of(statements.head_of(line))
    if rank_only.is_one(text):
        return True
    if text.startswith(("if ", "elif ")):
        test = parsed(text)
    else:
        inside = _WITHIN.findall(text)
        test = parsed(f"{inside[0]}:") if len(inside) == 1 and text.count(" if ") == 1 else None
    return test is not None and _is_of_rank(test)


_WITHIN: Final = re.compile(r"\b(if .+?) +else\b")


def parsed(text: str) -> ast.expr | None:
    """The test of an ``if``, given by its head; None where it is not whole, or too deep."""
    try:
        test = ast.parse(text.removeprefix("el")[3:].rstrip(":"), mode="eval").body
        ast.unparse(test)  # goes deeper than all that is asked of it here
        return test
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_of_rank(test: ast.expr) -> bool:
    """Whether a test asks for the rank, and for nothing that may change."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _is_of_rank(inner)
        case ast.BoolOp(values=parts):
            return all(map(_is_of_rank, parts))
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
            if RANK.fullmatch(ast.unparse(test)):
                return True
            return any(map(_is_rank, parts)) and all(_is_rank(p) or _is_fixed(p) for p in parts)
        case _:
            return _is_rank(test)


def _is_rank(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return RANK.fullmatch(name) is not None
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=[], keywords=[]):
            return _is_rank(function)
        case ast.BinOp(op=ast.Mod() | ast.FloorDiv(), left=left, right=right):
            return _is_rank(left) and _is_fixed(right)
        case _:
            return False


def _is_world(node: ast.expr) -> bool:
    """Whether it is how many ranks there are, by its name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return WORLD.fullmatch(name) is not None
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=[], keywords=[]):
            return _is_world(function)
        case _:
            return False


def _is_fixed(node: ast.expr) -> bool:
    """Whether it is a number, one of several, or a name that constants have."""
    match node:
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_fixed, parts))
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return all(_is_world(part) or _is_fixed(part) for part in (left, right))
        case _:
            return False


def lets_by_rank(line: str, *, is_guard: bool) -> bool:
    """Whether who comes through a condition on the rank, or past a guard, does so by the rank.

    Beside it no more than flags are asked for. What is asked for by ``and`` keeps ranks from what
    is under a condition, and by ``or`` from what is behind a guard. Of ``rank == 0 or batches()``,
    and behind ``rank != 0 and not batches()``, who came may have been led by what it held.
    """
    if rank_only.is_one(statements.code_of(line)):
        return True
    test = parsed(statements.code_of(line))
    other = ast.And if is_guard else ast.Or
    match test:
        case None:
            return False
        case ast.BoolOp(op=op, values=parts) if isinstance(op, other):
            return all(_is_flag(part) or is_asked(ast.unparse(part)) for part in parts)
        case _:
            return True


def _is_flag(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and _is_flag(node.operand)
    return isinstance(node, ast.Name | ast.Attribute)


def spelled_out(line: str, assigned: Sequence[str], bindings: Bindings) -> str:
    """An ``if`` with the rank in it where it asks by a name: ``if rank == 0:`` for ``if main:``.

    Where nothing else is ever given to that name; any other line as it is.

    Args:
        line: the condition.
        assigned: the assignments that it goes back to, as a ``source`` record has them.
        bindings: those of its file.

    """
    text, number = statements.code_of(line), statements.number_of(line)
    if not text.startswith(("if ", "elif ")) or (test := parsed(text)) is None:
        return line
    behind = (one.partition(" ")[2] for one in assigned if one.startswith(f"{number} "))
    spelling = _Spelling(
        {
            name: value
            for text in behind
            for name, value in assignments(statements.code_of(text))
            if bindings.is_given_once(name, number)
        },
        bindings,
        number,
    )
    try:
        test = spelling.visit(test)
        return f"{number} if {ast.unparse(test)}:" if spelling.has_changed else line
    except RecursionError:
        return line


def answered_by(line: str, bindings: Bindings) -> str:
    """The ``return`` of a function of the file that an ``if`` asks, if it is a test of the rank.

    As ``number text``; empty: there is none.
    """
    text, number = statements.code_of(statements.head_of(line)), statements.number_of(line)
    test = parsed(text) if text.startswith(("if ", "elif ")) else None
    for node in ast.walk(test) if test is not None else ():
        if isinstance(node, ast.Call) and (found := _answer(node, number, bindings)) is not None:
            return f"{found.line} return {found.value}"
    return ""


def _answer(call: ast.Call, number: int, bindings: Bindings) -> Answer | None:
    """By which test of the rank a function of the file answers a call in a line; None: by none.

    By one that has one outcome on a rank whatever it is given, and asks for the rank of the process
    itself: ``self.rank`` may be that of anything.
    """
    match call.func:
        case ast.Name(id=name):
            found = bindings.answers.get(name)
            is_its_own = found is not None and found.within is None
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            found = bindings.answers.get(name)
            is_its_own = (
                found is not None and found.within is not None and found.within.holds(number)
            )
        case _:
            return None
    test = parsed(f"if {found.value}:") if found is not None and is_its_own else None
    return found if test is not None and _is_of_rank(test) and _is_of_process(test) else None


def _is_of_process(test: ast.expr) -> bool:
    """Whether each rank in a test is known to be that of the process among all, or on its host."""
    asked = {id(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)}
    names = {
        node.id if isinstance(node, ast.Name) else node.attr: id(node) in asked
        for node in ast.walk(test)
        if isinstance(node, ast.Name | ast.Attribute)
    }
    return all(
        name in _OF_PROCESS or (name == "get_rank" and is_asked_for)
        for name, is_asked_for in names.items()
        if RANK.fullmatch(name)
    )


_OF_PROCESS: Final = frozenset(
    {
        "process_index", "local_process_index", "is_main_process", "is_local_main_process",
        "is_global_zero", "is_world_process_zero", "is_local_process_zero",
    }
)  # fmt: skip
"""What frameworks call it, by whatever object it is asked for: see ``rank_names``."""


def keeps_out(line: str, assigned: Sequence[str], rank: int, *, is_guard: bool = False) -> bool:
    """Whether a rank that was under a condition could not be, by what is written of its names.

    Then one of these has been given something else since, from a place that is not seen. False
    where the test asks for more than the number of the rank, or an ``if`` is not known.

    Args:
        line: the condition, or the arm of its ``else``.
        assigned: the assignments that it goes back to, as a ``source`` record has them.
        rank: who was under it.
        is_guard: the rank stood behind it.

    """
    head = statements.head_of(line)
    text, number = statements.code_of(head), statements.number_of(head)
    if not text.startswith(("if ", "elif ")) or (test := parsed(text)) is None:
        return False
    values: dict[str, ast.expr] = {}
    for one in assigned:
        if one.startswith(f"{number} "):
            for name, value in assignments(statements.code_of(one.partition(" ")[2])):
                values.setdefault(name, value)
    try:
        outcome = _outcome(_Spelling(values).visit(test), rank)
    except RecursionError:
        return False
    return outcome is (is_guard or head != line)


def _outcome(test: ast.expr, rank: int) -> bool | None:
    """What a test of a number says on a rank; None: it asks for more than that."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = _outcome(inner, rank)
            return None if found is None else not found
        case ast.BoolOp(op=op, values=parts):
            decides = isinstance(op, ast.Or)
            found_of_parts = {_outcome(part, rank) for part in parts}
            if decides in found_of_parts:
                return decides
            return None if None in found_of_parts else not decides
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]):
            compare = _COMPARISONS.get(type(op))
            return compare(rank, number) if compare is not None and _is_number(left) else None
        case _:
            return None


_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Eq: eq, ast.NotEq: ne, ast.Lt: lt, ast.LtE: le, ast.Gt: gt, ast.GtE: ge,
}  # fmt: skip


def _is_number(node: ast.expr) -> bool:
    """Whether it is the rank among all, not that within a host or a group."""
    return _NUMBER.fullmatch(ast.unparse(node)) is not None


_NUMBER: Final = re.compile(r"(self\.)?_?(global_)?rank|(torch\.)?(dist|distributed)\.get_rank\(\)")


class _Spelling(ast.NodeTransformer):
    """Puts the outcome of a test of the rank where a name stands for it."""

    def __init__(
        self, values: Mapping[str, ast.expr], bindings: Bindings | None = None, number: int = 0
    ) -> None:
        self._values = values
        self._bindings = bindings or Bindings()
        self._number = number
        self.has_changed = False

    def visit_Call(self, node: ast.Call) -> ast.expr:
        found = _answer(node, self._number, self._bindings)
        test = parsed(f"if {found.value}:") if found is not None else None
        if test is None:
            self.generic_visit(node)
            return node
        self.has_changed = True
        return test

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._value(node, node.attr)

    def _value(self, node: ast.Name | ast.Attribute, last: str) -> ast.expr:
        name = ast.unparse(node)
        if RANK.fullmatch(last) or name not in self._values:
            return node
        further = _Spelling({n: value for n, value in self._values.items() if n != name})
        found: ast.expr = further.visit(self._values[name])
        if not is_asked(ast.unparse(found)):
            return node
        self.has_changed = True
        return found
