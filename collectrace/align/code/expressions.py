"""Lower expressions to nodes of a control-flow graph.

Expressions are lowered backwards, like the statements in ``lowering``: each function takes the node
that follows an expression, and returns the node at which its evaluation begins. Only calls and
choices between calls get nodes. An expression without calls does not affect control.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectrace.align.code.graph import (
    ENDED,
    ITERATES,
    NEXT,
    NOT_TAKEN,
    TAKEN,
    Kind,
    Node,
    Outcome,
    called_name,
)

MOST_NODES: Final = 3_000
"""Nodes of one function. Some questions on a graph take time that grows with their square."""

Target = Callable[[], Node]
"""Builds a node at the first call, and returns the same node later."""

Raises = Callable[[str], Node]
"""Takes the name of an exception (empty: not known), and returns where it leads."""

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_EXITS: Final = frozenset({"exit", "_exit", "quit", "abort"})
"""Functions that end the process."""

_EAGER: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "max", "min", "join", "deque"}
)
"""Functions that consume all of an iterator. Others, such as ``any``, may stop early."""

_QUIET: Final = (
    ast.Name, ast.Constant, ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.NamedExpr
)  # fmt: skip
"""Expressions that raise nothing, except in calls that have their own node."""

_STEPS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
"""Expressions that have a node of their own."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The targets of control that leaves a place in a function."""

    returns: Target
    raises: Raises
    breaks: Target
    continues: Target
    loops: tuple[int, ...] = ()
    """Numbers of the heads of the loops around the place, outermost first."""


class Expressions:
    """Makes the nodes of one function, and lowers the expressions in it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inlined: set[int] = set()
        """``id`` of each comprehension that was lowered in place."""
        self.head: ast.AST | None = None
        """The statement that is being lowered."""

    def node(
        self, kind: Kind, tree: ast.AST | None, scope: Scope | None, *edges: tuple[Outcome, Node]
    ) -> Node:
        """Return a new node; raise OverflowError if the function has too many."""
        if len(self.nodes) >= MOST_NODES:
            raise OverflowError
        line = getattr(tree, "lineno", 0)
        loops = scope.loops if scope is not None else ()
        node = Node(
            len(self.nodes), kind, line, head_end(tree), tree, self.head, loops, list(edges)
        )
        self.nodes.append(node)
        return node

    def step(
        self,
        tree: ast.AST,
        scope: Scope,
        *then: Node,
        kind: Kind = Kind.STATEMENT,
        raising: bool = True,
    ) -> Node:
        """Return a new node that goes on to the next one, and may raise."""
        node = self.node(kind, tree, scope, *((NEXT, one) for one in then))
        if raising:
            node.raises = scope.raises("")
        return node

    def values(self, trees: Sequence[ast.AST | None], then: Node, scope: Scope) -> Node:
        """Lower expressions that are evaluated in sequence."""
        for tree in reversed(trees):
            then = self.value(tree, then, scope)
        return then

    def value(self, e: ast.AST | None, then: Node, scope: Scope) -> Node:
        """Lower an expression with a value that is used."""
        match e:
            case None | ast.Name() | ast.Constant() | ast.Lambda():
                return then
            case ast.Call():
                return self._call(e, then, scope)
            case ast.BoolOp():
                is_and = isinstance(e.op, ast.And)
                return self._short_circuit(e.values, then, scope, is_and=is_and)
            case ast.Compare() if len(e.ops) > 1:
                first = self._short_circuit(e.comparators, then, scope, is_and=True)
                return self.value(e.left, first, scope)
            case ast.IfExp():
                yes, no = (self.value(one, then, scope) for one in (e.body, e.orelse))
                if yes is no:
                    return self.value(e.test, then, scope)
                return self.test(e.test, yes, no, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                return self.comprehension(e, then, scope)
            case ast.GeneratorExp():  # it runs later, in its own frame
                return self.value(e.generators[0].iter, then, scope)
            case ast.Await():
                return self.value(e.value, self.step(e, scope, then, kind=Kind.AWAIT), scope)
            case ast.Yield() | ast.YieldFrom():
                return self.value(e.value, self.step(e, scope, then, kind=Kind.YIELD), scope)
            case _:
                return self.values(children(e), then, scope)

    def test(self, e: ast.expr, yes: Node, no: Node, scope: Scope) -> Node:
        """Lower a condition that leads to one of two nodes."""
        match e:
            case ast.BoolOp(op=op, values=[*before, last]):
                node = self.test(last, yes, no, scope)
                for one in reversed(before):
                    is_and = isinstance(op, ast.And)
                    node = self.test(one, node if is_and else yes, no if is_and else node, scope)
                return node
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.test(operand, no, yes, scope)
            case ast.IfExp():
                of_body = self.test(e.body, yes, no, scope)
                return self.test(e.test, of_body, self.test(e.orelse, yes, no, scope), scope)
            case ast.Constant():
                return yes if e.value else no
            case _:
                return self.value(e, self._branch(e, yes, no, scope), scope)

    def comprehension(
        self,
        e: Comprehension,
        then: Node,
        scope: Scope,
        *,
        lazy: bool = False,
        yields: bool = False,
    ) -> Node:
        """Lower a comprehension to the loops that it stands for.

        Args:
            e: the comprehension.
            then: the node behind it.
            scope: where control goes.
            lazy: its consumer may stop early.
            yields: it runs in its own frame, and stops at each element.

        """
        elements = [e.key, e.value] if isinstance(e, ast.DictComp) else [e.elt]
        inside = [
            *elements,
            *(condition for one in e.generators for condition in one.ifs),
            *(one.iter for one in e.generators[1:]),
        ]
        if not yields and not any(map(_has_steps, inside)):
            return self.value(e.generators[0].iter, then, scope)
        self.inlined.add(id(e))
        heads: list[Node] = []
        scopes = [scope]
        for _ in e.generators:
            head = self.step(e, scopes[-1], kind=Kind.LOOP)
            head.loops = (*scopes[-1].loops, head.number)
            heads.append(head)
            scopes.append(replace(scope, loops=head.loops))
        node = heads[-1]
        if yields:
            node = self.step(elements[-1], scopes[-1], node, kind=Kind.YIELD)
        elif lazy:
            node = self.node(Kind.TEST, e, scopes[-1], (ITERATES, node), (ENDED, then))
        node = self.values(elements, node, scopes[-1])
        for n, generator in reversed(list(enumerate(e.generators))):
            for condition in reversed(generator.ifs):
                node = self.test(condition, node, heads[n], scopes[n + 1])
            heads[n].edges = [(ITERATES, node), (ENDED, heads[n - 1] if n else then)]
            node = self.value(generator.iter, heads[n], scopes[n])
        return node

    def _call(self, e: ast.Call, then: Node, scope: Scope) -> Node:
        name = called_name(e)
        node = self.step(e, scope, then, kind=Kind.CALL)
        if name in _EXITS and not is_method_of_self(e.func):
            node.edges, node.raises = [], scope.raises("SystemExit")
        for one in reversed([*e.args, *(keyword.value for keyword in e.keywords)]):
            if isinstance(one, ast.GeneratorExp):
                node = self.comprehension(one, node, scope, lazy=name not in _EAGER)
            else:
                node = self.value(one, node, scope)
        return self.value(e.func, node, scope)

    def _short_circuit(
        self, values: Sequence[ast.expr], then: Node, scope: Scope, *, is_and: bool
    ) -> Node:
        """Lower operands of ``and`` or ``or``: later ones run only after certain values."""
        node = self.value(values[-1], then, scope)
        for one in reversed(values[:-1]):
            if node is not then:  # the later operands contain calls
                ways = (node, then) if is_and else (then, node)
                node = self._branch(one, *ways, scope)
            node = self.value(one, node, scope)
        return node

    def _branch(self, e: ast.expr, yes: Node, no: Node, scope: Scope) -> Node:
        node = self.node(Kind.TEST, e, scope, (TAKEN, yes), (NOT_TAKEN, no))
        if not isinstance(e, _QUIET):
            node.raises = scope.raises("")
        return node


def children(tree: ast.AST | None) -> Sequence[ast.AST]:
    """Return the parts of an expression or simple statement in evaluation order."""
    match tree:
        case None:
            return ()
        case ast.Assign():
            return tree.value, *tree.targets
        case ast.AnnAssign():
            return () if tree.value is None else (tree.value, tree.target)
        case ast.Dict():
            pairs = zip(tree.keys, tree.values, strict=True)
            return [one for pair in pairs for one in pair if one is not None]
        case _:
            return list(ast.iter_child_nodes(tree))


def head_end(tree: ast.AST | None) -> int:
    """Return the last line of an expression, a simple statement or a compound statement's head."""
    first: int = getattr(tree, "lineno", 0)
    body = getattr(tree, "body", None)
    if isinstance(tree, ast.Match):
        return first
    if isinstance(tree, ast.stmt | ast.ExceptHandler) and isinstance(body, list) and body:
        begins: int = body[0].lineno
        return max(first, begins - 1)
    end: int = getattr(tree, "end_lineno", None) or first
    return max(first, end)


def is_quiet(s: ast.stmt) -> bool:
    """Whether a simple statement raises nothing, except in calls that have their own node."""
    match s:
        case ast.Expr(value=value):
            return isinstance(value, _QUIET)
        case ast.Assign(targets=[ast.Name()], value=value):
            return isinstance(value, _QUIET)
        case ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or isinstance(value, _QUIET)
        case _:
            return False


def is_method_of_self(called: ast.AST) -> bool:
    """Whether the called function is a method of ``self``."""
    match called:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return True
        case _:
            return False


def _has_steps(tree: ast.AST) -> bool:
    return any(isinstance(node, _STEPS) for node in _walk(tree))


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Return the parts of an expression, without the bodies of lambdas."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.Lambda):
            todo += ast.iter_child_nodes(node)
