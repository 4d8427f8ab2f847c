"""The conditions of a function: what a step tests, and which conditions select a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from collectrace.align.code import origins
from collectrace.align.code.graph import (
    NOT_TAKEN,
    TAKEN,
    Graph,
    Kind,
    Node,
    called_name,
    following,
)
from collectrace.align.code.places import Place

_MOST_NODES: Final = 1_000
"""Nodes of a function beyond which the choice of a value is not analysed."""


class Choice(NamedTuple):
    """A step that decides which assignment a name has its value from."""

    node: Node
    by_exception: bool


def choosing_steps(graph: Graph, bindings: Sequence[Node], use: Node) -> Sequence[Choice] | None:
    """Return the steps that decide which binding of a name reaches its use, the nearest first.

    Their outcomes first lead to different bindings, or some to a binding and others to the use.
    None: the function is too large.
    """
    if len(graph.nodes) > _MOST_NODES:
        return None
    key = *(one.number for one in bindings), use.number
    if key not in graph.choices:
        graph.choices[key] = _choosing_steps(graph, bindings, use)
    return cast(Sequence[Choice], graph.choices[key])


def _choosing_steps(graph: Graph, bindings: Sequence[Node], use: Node) -> Sequence[Choice]:
    # Copies of one statement count as one binding.
    ends = {**{one.number: id(one.tree) for one in bindings}, use.number: 0}
    ahead = {node.number: frozenset[int]() for node in graph.nodes}

    def first(node: Node) -> frozenset[int]:
        return frozenset({ends[node.number]}) if node.number in ends else ahead[node.number]

    is_settled = False
    while not is_settled:
        before = dict(ahead)
        for node in graph.nodes:
            ahead[node.number] = frozenset[int]().union(*map(first, following(node)))
        is_settled = ahead == before
    found: list[Choice] = []
    for node in sorted(graph.nodes, key=lambda one: abs(one.line - use.line)):
        normal = {first(target) for _, target in node.edges} - {frozenset()}
        raised = {first(node.raises)} - {frozenset()} if node.raises is not None else set()
        if len(normal) > 1:
            found.append(Choice(node, by_exception=False))
        if raised and len(normal | raised) > 1:
            found.append(Choice(node, by_exception=True))
    return found


def condition_of(node: Node) -> ast.AST | None:
    """Return the expression that selects the next step; None if there is no choice."""
    tree = node.tree
    match node.kind:
        case Kind.TEST:
            return tree
        case Kind.LOOP if isinstance(tree, ast.For | ast.AsyncFor):
            return tree.iter
        case Kind.LOOP:
            return tree
        case Kind.MATCH if isinstance(tree, ast.Match):
            return tree.subject
        case _:
            return None


_BUILTIN: Final = frozenset({"range", "enumerate", "reversed", "zip", "sorted", "len"})


def is_constant(condition: ast.AST | None) -> bool:
    """Whether an expression always has the same value: ``range(3)``, ``DEBUG``."""
    if condition is None:
        return False
    return all(
        isinstance(one, ast.Constant | ast.Tuple | ast.List | ast.Call | ast.expr_context)
        or (isinstance(one, ast.Name) and (one.id in _BUILTIN or one.id.isupper()))
        for one in ast.walk(condition)
    )


OPPOSITE: Final = {TAKEN: NOT_TAKEN, NOT_TAKEN: TAKEN}


def is_negated(node: Node, head: ast.AST | None = None) -> bool:
    """Whether a step tests the opposite of a part of a condition: ``not x``.

    The condition belongs to ``head``, by default the step's statement.
    """
    todo = [(getattr(head or node.head, "test", None), False)]
    while todo:
        tree, negated = todo.pop()
        if tree is node.tree:
            return negated
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            todo.append((tree.operand, not negated))
        elif isinstance(tree, ast.BoolOp):
            todo += ((value, negated) for value in tree.values)
    return False


def is_same_on_all_ranks(test: ast.Compare) -> bool:
    """Whether a test of the rank has one outcome on all ranks: ``rank >= 0``, ``rank is None``."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[other]):
            rank = origins.is_rank(called_name(left))
            value = other.operand if isinstance(other, ast.UnaryOp) else other
            number = value.value if isinstance(value, ast.Constant) else ...
            if not rank or number is ...:
                return False
            negative = isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub)
            if number == 0 and not negative:
                return isinstance(op, ast.GtE | ast.Lt)
            return number is None or (negative and number == 1)
        case _:
            return False


def holds_at_intervals(test: ast.expr) -> bool:
    """Whether a test may be true at intervals: a remainder, two variables, or a method call."""
    match test:
        case ast.UnaryOp(operand=inner):
            return holds_at_intervals(inner)
        case ast.Call(func=ast.Attribute(), args=[], keywords=[]):
            return True
        case ast.Compare(left=ast.Name() | ast.Attribute(), comparators=[other]):
            return isinstance(other, ast.Name | ast.Attribute) and not called_name(other).isupper()
        case _:
            return any(
                isinstance(one, ast.BinOp)
                and isinstance(one.op, ast.Mod)
                and not isinstance(one.left, ast.Constant)
                for one in ast.walk(test)
            )


def is_bound_by_comprehension(name: str, place: Place) -> bool:
    """Whether a comprehension or lambda in the statement binds a name."""
    trees = (place.node.tree, place.node.head) if place.node is not None else (place.function.tree,)
    for tree in trees:
        for one in ast.walk(tree) if tree is not None else ():
            if isinstance(one, ast.comprehension | ast.arguments) and any(
                getattr(part, "id", getattr(part, "arg", "")) == name
                for part in ast.walk(one.target if isinstance(one, ast.comprehension) else one)
            ):
                return True
    return False
