"""The conditions of a function: what a step tests, and which conditions choose a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from collectrace.align.code import branches, origins
from collectrace.align.code.branches import TARGETS
from collectrace.align.code.graph import NEXT, Graph, Kind, Node, called_name
from collectrace.align.code.paths import Edge
from collectrace.align.code.places import Place


def choosing(graph: Graph, bindings: Sequence[Node], use: Node) -> list[Node]:
    """Return the steps that decide which of several bindings of a name reaches its use."""
    found: dict[int, Node] = {}
    for begin in (graph.entry, *bindings):
        others = {one.number for one in bindings if one is not begin}
        for one in sorted(others):
            ends = {use.number: TARGETS[1], **dict.fromkeys(others, TARGETS[1]), one: TARGETS[0]}

            def edges(step: int, begin: Node = begin, ends: dict[int, int] = ends) -> list[Edge]:
                if step in ends and step != begin.number:
                    return [Edge(ends[step], NEXT, False)]
                node = graph.nodes[step if step >= 0 else ~step]
                following = [Edge(t.number, outcome, False) for outcome, t in node.edges]
                if node.raises is not None:
                    following.append(Edge(node.raises.number, NEXT, True))
                return following

            region = branches.explore(edges, lambda step: graph.nodes[step].loops, [begin.number])
            for branch in branches.separating(region, same=False):
                found.setdefault(branch.step, graph.nodes[branch.step])
    return list(found.values())


def condition_of(node: Node) -> ast.AST | None:
    """Return the expression by which a step chooses where to go; None: it does not choose."""
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


def is_alike(test: ast.Compare) -> bool:
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


def is_comprehended(name: str, place: Place) -> bool:
    """Whether a name is bound by a comprehension or lambda in the statement."""
    trees = (place.node.tree, place.node.head) if place.node is not None else (place.function.tree,)
    for tree in trees:
        for one in ast.walk(tree) if tree is not None else ():
            if isinstance(one, ast.comprehension | ast.arguments) and any(
                getattr(part, "id", getattr(part, "arg", "")) == name
                for part in ast.walk(one.target if isinstance(one, ast.comprehension) else one)
            ):
                return True
    return False
