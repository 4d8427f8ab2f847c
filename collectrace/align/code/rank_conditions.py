"""Evaluate conditions on the rank for one rank, as far as the source allows.

Names are followed to their values: ``is_main`` to ``rank == 0``. A value that is selected or
computed with the rank, such as ``batches[rank]``, is data and no condition on the rank.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from operator import contains, floordiv, mod
from typing import Any, Final

from collectrace.align.code import calls, names, outcomes
from collectrace.align.code.conditions import is_same_on_all_ranks
from collectrace.align.code.expressions import is_method_of_self
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Kind, called_name
from collectrace.align.code.names import Binding, How
from collectrace.align.code.places import Place
from collectrace.align.code.program import Program
from collectrace.align.reading.rank_names import RANK, WORLD, is_asked, is_variable

_DEEPEST: Final = 6
"""Longest chain of names and calls that is followed."""

_NUMBER: Final = re.compile(r"(self\.)?_?(global_)?rank|(torch\.)?(dist|distributed)\.get_rank\(\)")
"""The global rank, not that within a host or a group."""

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    **outcomes.COMPARES,
    ast.In: lambda a, b: contains(b, a), ast.NotIn: lambda a, b: not contains(b, a),
}  # fmt: skip

_OPPOSITE: Final = (ast.NotEq, ast.NotIn, ast.IsNot)


class RankCondition:
    """Evaluates conditions for one rank.

    Tests of the rank that the source does not resolve, such as ``is_main_process()``, count as
    ``assumed``: if two ranks took different branches at it, the outcomes differed.
    """

    def __init__(self, program: Program, rank: int, *, assumed: bool) -> None:
        self._program = program
        self._rank = rank
        self._assumed = assumed

    def outcome(self, test: ast.AST | None, place: Place, depth: int = 0) -> bool | None:
        """Return the outcome of a test, or None if it depends on more than the rank."""
        if depth > _DEEPEST:
            return None
        match test:
            case ast.Constant(value=value):
                return bool(value)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                found = self.outcome(inner, place, depth)
                return None if found is None else not found
            case ast.BoolOp():
                return self._joined(test, place, depth)
            case ast.Compare(left=left, ops=[op], comparators=[other]):
                return self._compared(test, left, op, other, place, depth)
            case ast.IfExp():
                arm = self._arm(test, place, depth)
                return None if arm is None else _truth(arm)
            case ast.Call(func=ast.Name(id="int" | "bool"), args=[inner]):
                return self.outcome(inner, place, depth)
            case ast.Call():
                return self._called(test, place, depth)
            case ast.BinOp() if self._is_rank(test, place):
                number = self._numbers(test, place)
                return bool(number) if number is not None else self._assumed
            case ast.Name() | ast.Attribute():
                return self._named(test, place, depth)
            case _:
                return None

    def _joined(self, test: ast.BoolOp, place: Place, depth: int) -> bool | None:
        """Return the outcome of ``and`` or ``or``, taking flags as equal on all ranks."""
        decides = isinstance(test.op, ast.Or)
        found = [(self.outcome(part, place, depth), part) for part in test.values]
        if any(one is decides for one, _ in found):
            return decides
        unknown = [part for one, part in found if one is None and not _is_flag(part)]
        return None if unknown or all(one is None for one, _ in found) else not decides

    def _compared(
        self,
        test: ast.Compare,
        left: ast.expr,
        op: ast.cmpop,
        other: ast.expr,
        place: Place,
        depth: int,
    ) -> bool | None:
        if is_same_on_all_ranks(test):
            return None
        for one, two in ((left, other), (other, left)):
            if self._is_rank(one, place) and self._is_fixed(two):
                sides = self._numbers(left, place), self._numbers(other, place)
                compare = _COMPARISONS.get(type(op))
                if compare is not None and None not in sides:
                    return _tried(compare, *sides)
                return self._assumed is not isinstance(op, _OPPOSITE)
        if RANK.fullmatch(ast.unparse(test)):  # such as ``gpu == 0``
            return self._assumed is not isinstance(op, _OPPOSITE)
        is_identity = isinstance(op, ast.Is | ast.IsNot)
        match self._resolved(left, place, is_identity=is_identity), op, other:
            case (ast.IfExp() as picked, at), ast.Is() | ast.IsNot(), ast.Constant(value=value):
                arm = self._arm(picked, at, depth + 1)
                is_it = isinstance(arm, ast.Constant) and arm.value is value
                return None if arm is None else is_it is isinstance(op, ast.Is)
            case _:
                return None

    def _numbers(self, tree: ast.expr, place: Place, depth: int = 0) -> Any:
        """Return the number of an expression of the rank and the number of ranks, or None.

        The numbers that a tuple, a list or a set spells out count as one.
        """
        if _NUMBER.fullmatch(ast.unparse(tree)):
            return self._rank
        match tree:
            case ast.BinOp(left=left, op=op, right=right) if depth < _DEEPEST:
                sides = (self._numbers(one, place, depth + 1) for one in (left, right))
                return _computed(outcomes.COMPUTES.get(type(op)), *sides)
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._numbers(inner, place, depth)
            case ast.Call(args=[], keywords=[]) if WORLD.fullmatch(called_name(tree)):
                return self._program.world_size
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=name)):
                return self._program.world_size if name == "WORLD_SIZE" else None
            case ast.Name() | ast.Attribute() if depth < _DEEPEST:
                value = self._resolved(tree, place)
                return self._numbers(*value, depth + 1) if value is not None else None
            case _:
                return _value(tree)

    def _arm(self, tree: ast.IfExp, place: Place, depth: int) -> ast.expr | None:
        """Return the branch of a conditional expression that the rank takes."""
        found = self.outcome(tree.test, place, depth)
        return None if found is None else tree.body if found else tree.orelse

    def _named(self, tree: ast.Name | ast.Attribute, place: Place, depth: int) -> bool | None:
        name = called_name(tree)
        if RANK.fullmatch(name):
            return bool(self._rank) if _NUMBER.fullmatch(ast.unparse(tree)) else self._assumed
        value = self._resolved(tree, place)
        return self.outcome(*value, depth + 1) if value is not None else None

    def _called(self, tree: ast.Call, place: Place, depth: int) -> bool | None:
        is_known = isinstance(tree.func, ast.Name) or is_method_of_self(tree.func)
        function = calls.called_by(tree, place.function, self._program.lookup) if is_known else None
        returned = self._returned(function) if function is not None else None
        if returned is not None:
            return self.outcome(*returned, depth + 1)
        if not RANK.fullmatch(called_name(tree)) or tree.args:
            return None
        return bool(self._rank) if _NUMBER.fullmatch(ast.unparse(tree)) else self._assumed

    def _returned(self, function: Function) -> tuple[ast.expr, Place] | None:
        """Return the only expression that a function returns, or None if there are several."""
        graph = self._program.graph(function)
        nodes = [
            node
            for node in (graph.nodes if graph is not None else ())
            if node.kind is Kind.STATEMENT and isinstance(node.tree, ast.Return)
        ]
        if len(nodes) != 1 or not isinstance(nodes[0].tree, ast.Return):
            return None
        value = nodes[0].tree.value
        return (value, Place(function, nodes[0])) if value is not None else None

    def _is_rank(self, tree: ast.expr, place: Place, depth: int = 0) -> bool:
        """Whether an expression is the number of the rank."""
        match tree:
            case ast.Name() | ast.Attribute() if RANK.fullmatch(called_name(tree)):
                return True
            case ast.Name() if depth < _DEEPEST:
                value = self._resolved(tree, place)
                return value is not None and self._is_rank(*value, depth + 1)
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._is_rank(inner, place, depth)
            case ast.Call(func=ast.Name() | ast.Attribute()):
                return is_variable(tree) or RANK.fullmatch(called_name(tree)) is not None
            case ast.BinOp(op=op, left=left, right=right) if type(op) in outcomes.COMPUTES:
                return self._is_rank(left, place, depth) and self._is_fixed(right)
            case ast.Subscript():
                return is_variable(tree)
            case _:
                return False

    def _is_fixed(self, tree: ast.expr) -> bool:
        """Whether an expression is the same on all ranks: a number, or a name not of the rank."""
        return not any(
            isinstance(one, ast.Call | ast.Subscript) and not _WORLD.search(ast.unparse(one))
            for one in ast.walk(tree)
        )

    def _resolved(
        self, tree: ast.expr, place: Place, *, is_identity: bool = False
    ) -> tuple[ast.expr, Place] | None:
        """Return the only expression that gave a name its value, and its place, or None.

        ``is_identity``: which object it is counts, whatever changed it since.
        """
        function: Function | None = place.function
        if isinstance(tree, ast.Attribute):
            owner = calls.class_of(place.function)
            if owner is None or names.dotted(tree) != f"self.{tree.attr}":
                return None
            values = [*names.attribute_values(owner, tree.attr)]
            if len(values) != 1 or values[0][1] is None:
                return None
            return values[0][1], Place(values[0][0], None)
        while isinstance(tree, ast.Name) and function is not None:
            bound = self._bound(tree.id, function, place)
            if is_identity:
                bound = [one for one in bound if one.how is not How.CHANGE]
            if bound:
                one = bound[0]
                is_one = len(bound) == 1 and one.how is How.VALUE and one.value is not None
                return (one.value, Place(function, one.node)) if is_one and one.value else None
            function = function.parent
        return None

    def _bound(self, name: str, function: Function, place: Place) -> Sequence[Binding]:
        definitions = self._program.definitions(function)
        if definitions is None or isinstance(function.tree, ast.ClassDef):
            return ()
        if function is place.function and place.node is not None:
            return definitions.reaching(place.node, name)
        return definitions.all(name)


def outcome_on(program: Program, test: ast.AST | None, place: Place, rank: int) -> bool | None:
    """Return the outcome of a test of the rank alone; None if the source does not show it.

    A name such as ``rank`` may stand for another rank: a loop's item, or an argument.
    """
    for one in ast.walk(test) if test is not None else ():
        if isinstance(one, ast.Name) and RANK.fullmatch(one.id) and _is_given(program, one, place):
            return None
    found = {
        RankCondition(program, rank, assumed=assumed).outcome(test, place)
        for assumed in (False, True)
    }
    return found.pop() if len(found) == 1 else None


def _is_given(program: Program, tree: ast.Name, place: Place) -> bool:
    """Whether a name is bound by a loop, or by a caller that passes another value."""
    definitions, context = program.definitions(place.function), place.context
    if definitions is None or place.node is None:
        return False
    for binding in definitions.reaching(place.node, tree.id):
        if binding.how in (How.ITEM, How.CHANGE):
            return True
        call = context.call.tree if context is not None and context.call is not None else None
        if binding.how is How.PARAMETER and isinstance(call, ast.Call):
            passed = names.argument(call, place.function, tree.id)
            is_its_own = (
                passed is None or isinstance(passed, ast.Call) or is_asked(ast.unparse(passed))
            )
            if not is_its_own:
                return True
    return False


def _computed(operation: Callable[[int, int], int] | None, left: Any, right: Any) -> int | None:
    # A hostile program may multiply a string.
    if operation is None or not (isinstance(left, int) and isinstance(right, int)):
        return None
    is_undefined = operation in (floordiv, mod) and not right
    return None if is_undefined else operation(left, right)


def _tried(compare: Callable[[Any, Any], bool], rank: int, number: Any) -> bool | None:
    try:
        return bool(compare(rank, number))
    except TypeError:
        return None


_WORLD: Final = re.compile(r"world|size|len\(")


def _is_flag(tree: ast.expr) -> bool:
    if isinstance(tree, ast.UnaryOp):
        return isinstance(tree.op, ast.Not) and _is_flag(tree.operand)
    if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Is | ast.IsNot):
        return _is_flag(tree.left)
    return isinstance(tree, ast.Name | ast.Attribute)


def _truth(tree: ast.expr) -> bool | None:
    """Return whether the value of a conditional expression's branch is true."""
    match tree:
        case ast.Constant(value=value):
            return bool(value)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return bool(parts)
        case ast.Call():  # it constructs an object
            return True
        case _:
            return None


def _value(tree: ast.expr) -> Any:
    """Return the number or numbers that an expression spells out, or None."""
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None
