"""Find the conditions of a function that decide whether a line is reached.

A condition decides if one of its outcomes leads to the line in the same iteration of the loops
around it, and another outcome does not. It contains the line, or jumps over it by a ``return``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from collectrace.align.code.conditions import is_negated
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Graph, Kind, Node, Way, reached
from collectrace.align.reading import rank_only


class Condition(NamedTuple):
    """A statement that decides whether a line is reached."""

    function: Function
    head: ast.AST
    """The ``if`` or other statement with a test, an ``except``, or a function that a decorator
    limits to one rank."""
    outcome: bool
    """The outcome of its test on the way to the line."""
    node: Node | None
    """The step that evaluates the first part of its test."""

    @property
    def key(self) -> tuple[str, int]:
        """Identity of the condition across stacks."""
        return self.function.file.path, id(self.head)

    @property
    def is_handler(self) -> bool:
        """Whether it is an ``except``."""
        return isinstance(self.head, ast.ExceptHandler)

    @property
    def is_fork(self) -> bool:
        """Whether its other outcome has a separate branch."""
        return isinstance(self.head, ast.If) and bool(self.head.orelse)

    @property
    def opposite(self) -> Condition:
        """The same condition with the other outcome."""
        return self._replace(outcome=not self.outcome)

    @property
    def line(self) -> int:
        """The line that identifies it for a reader."""
        decorated = rank_only.lines_of(self.head)
        found: int = decorated[0] if decorated else getattr(self.head, "lineno", 0)
        return found

    @property
    def site(self) -> str:
        """``path:line``."""
        return f"{self.function.file.path}:{self.line}"

    @property
    def test(self) -> ast.expr | None:
        """Its test, or None."""
        found = getattr(self.head, "test", None)
        return found if isinstance(found, ast.expr) else None


def controls(function: Function, graph: Graph, nodes: Sequence[Node]) -> list[Condition]:
    """Return the conditions that decide whether some steps are reached, by line."""
    at, lines = {node.number for node in nodes}, {node.line for node in nodes}
    found = [
        Condition(function, one, outcome=True, node=None)
        for one in ast.walk(function.tree)
        if isinstance(one, ast.ExceptHandler)
        and any(one.lineno < line <= (one.end_lineno or 0) for line in lines)
    ]
    if rank_only.lines_of(function.tree):
        found.append(Condition(function, function.tree, outcome=True, node=None))
    for head, tests in _tests(graph).values():
        if not all({*tests[0].loops} <= {*node.loops} for node in nodes):
            continue  # a loop with a conditional exit also has another one
        barred = {*tests[0].loops, *(node.number for node in tests)}
        leading = {True: False, False: False}
        for node in tests:
            for outcome, target in node.edges:
                if target not in tests:
                    is_true = (outcome.way is Way.TAKEN) is not is_negated(node, head)
                    leading[is_true] |= bool(at & reached([target], barred, _unraised))
        if leading[True] is not leading[False]:
            found.append(Condition(function, head, leading[True], tests[-1]))
    return sorted(found, key=lambda one: one.line)


_Head = ast.If | ast.IfExp | ast.Assert


def _tests(graph: Graph) -> Mapping[int, tuple[_Head, list[Node]]]:
    """Return the tests of a function with the steps that evaluate each, first part last."""
    found: dict[int, tuple[_Head, list[Node]]] = {}
    for node in graph.nodes:
        if node.kind is Kind.TEST and (head := _head(node)) is not None:
            found.setdefault(id(head), (head, []))[1].append(node)
    return found


def _head(node: Node) -> _Head | None:
    """Return the innermost statement or expression whose test contains a step."""
    head = node.head
    inside = (one for one in ast.walk(head) if isinstance(one, ast.IfExp)) if head else ()
    around = [one for one in inside if node.tree in set(ast.walk(one.test))]
    if around:
        return around[-1]
    return head if isinstance(head, ast.If | ast.Assert) else None


def _unraised(node: Node) -> Iterator[Node]:
    """Return the nodes that come next without an exception."""
    return (target for _, target in node.edges)


def at_line(function: Function, graph: Graph, line: int) -> list[Condition]:
    """Return the conditions of statements that begin at a line, with both outcomes.

    Within one statement the line does not show which branch made a call.
    """
    return [
        Condition(function, head, outcome, tests[-1])
        for head, tests in _tests(graph).values()
        if head.lineno == line and not isinstance(head, ast.IfExp)
        for outcome in (True, False)
    ]


def can_reach(graph: Graph, line: int, to: int) -> bool:
    """Whether one line of a function can lead to another, possibly in a later iteration."""
    ends = {node.number for node in graph.at(to)}
    starts = (target for node in graph.at(line) for target in _unraised(node))
    return bool(ends & reached(starts, (), _unraised))
