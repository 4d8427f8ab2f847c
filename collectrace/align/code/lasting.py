"""The names that a statement depends on, and whether they still have their values.

Values are read after the statement used them. A name counts as unchanged only if the source shows
that nothing can have bound or changed it since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from collectrace.align.code import calls, names, outcomes
from collectrace.align.code.conditions import OPPOSITE, condition_of, is_negated
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Graph, Kind, Node, Outcome, called_name, reached
from collectrace.align.code.names import Definitions, How
from collectrace.align.code.places import Site
from collectrace.align.code.program import Program

_MOST_NAMES: Final = 12
"""Most names of one statement."""

_DEEPEST: Final = 2
"""Definitions that are followed back: ``ok``, and what it was computed from."""


class Lasting:
    """The names of one statement, and how long their values last."""

    def __init__(self, program: Program, function: Function, site: Site) -> None:
        self._program = program
        self._function = function
        self._graph = program.graph(function)
        nodes = _deciding(self._graph, site.line) if self._graph is not None else ()
        self._nodes = sorted(nodes, key=_column)

    def names(self) -> Sequence[str]:
        """Return the names that the statement depends on, those in the statement first."""
        found: dict[str, None] = {}
        definitions = self._program.definitions(self._function)
        level = [(condition_of(node) or node.tree, node) for node in self._nodes]
        for _ in range(_DEEPEST + 1):
            used = [(name, node) for tree, node in level for name in _used(tree)]
            level = []
            for name, node in used:
                if name not in found and definitions is not None:
                    bindings = definitions.reaching(node, name)
                    level += [(one.value, one.node) for one in bindings if one.how in _FOLLOWED]
                found[name] = None
        return list(found)[:_MOST_NAMES]

    def is_of_names(self) -> bool:
        """Whether the statement depends only on names, and not on what a call returns."""
        calls_ = (
            one
            for node in self._nodes
            for one in ast.walk(condition_of(node) or node.tree or ast.Pass())
            if isinstance(one, ast.Call)
        )
        return all(called_name(one) in _PURE for one in calls_)

    def outcome(self, values: Mapping[str, Any]) -> bool | int | None:
        """Return whether the condition was true, or how many items the loop visited.

        ``values``: by name. None: they do not determine the outcome.
        """
        head = self._nodes[0].head if self._nodes else None
        if isinstance(head, ast.For | ast.AsyncFor):
            return outcomes.length(head.iter, values)
        if isinstance(head, ast.If | ast.Assert):
            return outcomes.truth(head.test, values)
        return None

    def lasts(self, name: str, line: int, did: Outcome | None) -> bool:
        """Whether a name still has the value that the statement used when control is at ``line``.

        That is in the same call of the function, if the statement's last run had the outcome
        ``did``, or any outcome if that is None.
        """
        graph, definitions = self._graph, self._program.definitions(self._function)
        if graph is None or definitions is None or not self._nodes:
            return False
        ends = {node.number for node in graph.at(line)} - {node.number for node in self._nodes}
        if not ends:
            return False
        first = name.partition(".")[0]
        is_local = first in names.parameters(self._function.tree) or bool(definitions.all(first))
        is_settled = is_local and "." not in name
        for node in self._between(graph, definitions, ends, did):
            if node.number not in ends and definitions.binds(node, name):
                return False
            if not is_settled and node.number not in ends and self._may_change(node, name):
                return False
        return True

    def _between(
        self, graph: Graph, definitions: Definitions, ends: set[int], did: Outcome | None
    ) -> Iterator[Node]:
        """Return the steps on paths from the statement to ``ends``, without the statement."""
        own = {node.number for node in self._nodes}
        forth = reached((target for node in self._nodes for target in _after(node, did)), own)
        back = reached((graph.nodes[number] for number in ends), own, definitions.before)
        return (graph.nodes[number] for number in sorted(forth & back))

    def _may_change(self, node: Node, name: str) -> bool:
        """Whether a step may change an attribute, or a name of the module or an outer function."""
        if node.kind not in _RUNNING or called_name(node.tree) in calls.COLLECTIVES:
            return False
        owner, attribute = calls.class_of(self._function), name.partition(".")[2]
        if name.startswith("self.") and owner is not None:
            makers = {one.name for one, _ in names.attribute_values(owner, attribute)}
            return not makers <= {"__init__", "__post_init__", owner.name}
        module = self._function.file.module
        found = self._program.globals(module).get(name, ())
        return not found or any(one.function is not module for one in found)


_PURE: Final = frozenset({"enumerate", "int", "len", "range", "zip"})
"""Functions whose result depends only on their arguments."""

_FOLLOWED: Final = (How.VALUE, How.CHANGE, How.ITEM)

_RUNNING: Final = (Kind.CALL, Kind.AWAIT, Kind.YIELD, Kind.ENTER, Kind.LEAVE, Kind.LOOP)
"""Steps that run other code."""


def _deciding(graph: Graph, line: int) -> Iterator[Node]:
    for node in graph.nodes:
        head = getattr(node.head, "lineno", None)
        if line in (node.line, head) and (condition_of(node) is not None or _computes(node)):
            yield node


def _column(node: Node) -> tuple[int, int]:
    return node.line, getattr(node.tree, "col_offset", 0)


def _computes(node: Node) -> bool:
    return node.kind is Kind.STATEMENT and isinstance(
        node.tree, ast.Assign | ast.AnnAssign | ast.AugAssign
    )


def _used(tree: ast.AST | None) -> Iterator[str]:
    """Return the names and dotted names in an expression: ``self.step``, ``rank``."""
    todo: list[ast.AST] = [tree] if tree is not None else []
    while todo:
        one = todo.pop(0)
        if isinstance(one, ast.Call):  # the called function is not a value of interest
            todo += [*one.args, *(keyword.value for keyword in one.keywords)]
            if isinstance(one.func, ast.Attribute):
                todo.append(one.func.value)
            continue
        if text := names.dotted(one):
            yield text
            if isinstance(one, ast.Attribute):  # the recorded value of ``x`` includes ``x.shape``
                todo.append(one.value)
            continue
        todo += ast.iter_child_nodes(one)


def _after(node: Node, did: Outcome | None) -> Iterator[Node]:
    if did is not None and is_negated(node):
        did = OPPOSITE.get(did, did)
    fitting = [target for outcome, target in node.edges if outcome == did]
    yield from fitting or (target for _, target in node.edges)
