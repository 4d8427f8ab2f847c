"""Compute the outcome of a condition or a loop from recorded values of its names.

Only plain values are used. No code of the program is run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub
from typing import Any, Final, TypeVar

from collectrace.align.code import names

_T = TypeVar("_T")

_Value = Any
"""A plain value; a mapping describes any other value, as in a record."""

_LARGEST: Final = 1 << 64
"""Larger numbers are not counts of a program."""

COMPARES: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: eq, ast.NotEq: ne, ast.Lt: lt, ast.LtE: le, ast.Gt: gt, ast.GtE: ge,
}  # fmt: skip

COMPUTES: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.FloorDiv: floordiv, ast.Mod: mod,
}  # fmt: skip


class _UnknownError(Exception):
    """The recorded values do not determine the result."""


def truth(test: ast.AST, values: Mapping[str, _Value]) -> bool | None:
    """Return whether a condition was true; None if the values do not determine it."""
    return _tried(lambda: _truth(_Evaluation(values).of(test)))


def length(iterated: ast.AST, values: Mapping[str, _Value]) -> int | None:
    """Return how many items a loop visited; None if the values do not determine it."""
    return _tried(lambda: _length(_Evaluation(values).of(iterated)))


def _tried(work: Callable[[], _T]) -> _T | None:
    try:
        return work()
    except (_UnknownError, ArithmeticError, TypeError, ValueError, RecursionError):
        return None


class _Evaluation:
    def __init__(self, values: Mapping[str, _Value]) -> None:
        self._values = values

    def of(self, tree: ast.AST) -> _Value:
        """Return the value of an expression."""
        match tree:
            case ast.Constant(value=value) if not isinstance(value, str | bytes):
                return value
            case ast.Name() | ast.Attribute() if names.dotted(tree) in self._values:
                return _plain(self._values[names.dotted(tree)])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not _truth(self.of(inner))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -_number(self.of(inner))
            case ast.BoolOp(op=op, values=parts):
                return self._joined(parts, decides=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(left, ops, others)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTES:
                found = COMPUTES[type(op)](_number(self.of(left)), _number(self.of(right)))
                return _number(found)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._called(name, [self.of(one) for one in args])
            case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
                return _number(self.of(inner))
            case _:
                raise _UnknownError

    def _joined(self, parts: list[ast.expr], *, decides: bool) -> bool:
        """Return the truth of ``and`` or ``or``: one known part may decide."""
        found = [truth(part, self._values) for part in parts]
        if decides in found:
            return decides
        if None in found:
            raise _UnknownError
        return not decides

    def _compared(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> bool:
        values = [self.of(one) for one in (left, *others)]
        return all(map(_compared, ops, values, values[1:]))

    def _called(self, name: str, given: list[_Value]) -> _Value:
        match name, given:
            case "len", [one]:
                return _length(one)
            case "enumerate" | "list" | "tuple" | "reversed" | "sorted", [one]:
                return one
            case "range", [_, *_]:
                return range(*map(_whole, given))
            case "zip", [_, *_]:
                return range(min(map(_length, given)))
            case "bool" | "int" | "float", [one]:
                return _number(one)
            case _:
                raise _UnknownError


def _plain(value: _Value) -> _Value:
    """Return a recorded value; for a tensor of one element, its number."""
    number = value.get("value") if isinstance(value, dict) else value
    if isinstance(number, str) and value.get("type") == "float":
        return float(number)
    return number if isinstance(number, int | float) else value


def _number(value: _Value) -> int | float:
    if not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise _UnknownError
    return value


def _whole(value: _Value) -> int:
    number = _number(value)
    if not isinstance(number, int):
        raise _UnknownError
    return number


def _truth(value: _Value) -> bool:
    if isinstance(value, dict):
        if "len" not in value:
            raise _UnknownError
        return bool(value["len"])
    return bool(value)


def _length(value: _Value) -> int:
    if isinstance(value, range):
        return len(value)
    match value:
        case {"len": int(found)} | {"shape": [int(found), *_]}:
            return found
        case _:
            raise _UnknownError


def _compared(op: ast.cmpop, one: _Value, two: _Value) -> bool:
    match op, one, two:
        case ast.Is() | ast.IsNot(), _, None:
            return (one is None) is isinstance(op, ast.Is)
        case _ if type(op) in COMPARES:
            return COMPARES[type(op)](_number(one), _number(two))
        case _:
            raise _UnknownError
