"""Build the control-flow graph of a function from its syntax tree.

Statements are lowered backwards: each function takes the node that follows a statement, and returns
the node at which it begins. A ``finally`` block, or the exit of a ``with`` block, is lowered once
for each way out of the block: normally, by an exception, ``return``, ``break`` or ``continue``.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from collectrace.align.code.expressions import (
    Expressions,
    Raises,
    Scope,
    Target,
    children,
    is_quiet,
)
from collectrace.align.code.files import Function, statements
from collectrace.align.code.graph import (
    ENDED,
    ITERATES,
    NEXT,
    Graph,
    Kind,
    Node,
    Outcome,
    Way,
    called_name,
    following,
    reached,
)

Lookup = Callable[[str], Sequence[Function]]
"""Returns the known functions and classes with a name."""

_SUPPRESSING: Final = frozenset({"suppress", "ExitStack", "AsyncExitStack", "raises"})
"""Context managers of libraries that may suppress an exception."""


def build(function: Function, lookup: Lookup) -> Graph:
    """Return the graph of a function; raise OverflowError or RecursionError if it is too large."""
    return _Lowering(lookup).graph(function.tree)


class _Lowering(Expressions):
    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self._lookup = lookup

    def graph(self, tree: ast.AST) -> Graph:
        exit_, raised = (self.node(kind, None, None) for kind in (Kind.EXIT, Kind.RAISED))
        entry = self.node(Kind.ENTRY, None, None)
        scope = Scope(lambda: exit_, lambda _: raised, lambda: exit_, lambda: exit_)
        match tree:
            case ast.Lambda():
                first = self.value(tree.body, self.step(tree.body, scope, exit_), scope)
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                first = self.comprehension(tree, exit_, scope, yields=True)
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                first = self._block(tree.body, exit_, scope)
            case _:
                raise TypeError(tree)
        entry.edges.append((NEXT, first))
        yields = [n for n in self.nodes if n.kind is Kind.YIELD]
        graph = Graph(self.nodes, entry, exit_, raised, frozenset(self.inlined), yields)
        if yields:
            graph.before_first_yield = reached([entry], (node.number for node in yields))
            graph.after_yield = reached(t for n in yields for t in following(n))
        return graph

    # Statements

    def _block(self, body: Sequence[ast.stmt], then: Node, scope: Scope) -> Node:
        for statement in reversed(body):
            outer, self.head = self.head, statement
            then = self._statement(statement, then, scope)
            self.head = outer
        return then

    def _statement(self, s: ast.stmt, then: Node, scope: Scope) -> Node:
        match s:
            case ast.If():
                yes = self._block(s.body, then, scope)
                no = self._block(s.orelse, then, scope)
                return self.test(s.test, yes, no, scope)
            case ast.While():
                return self._while(s, then, scope)
            case ast.For() | ast.AsyncFor():
                return self._for(s, then, scope)
            case ast.Match():
                return self._match(s, then, scope)
            case ast.With() | ast.AsyncWith():
                return self._with(s, then, scope)
            case ast.Try() | ast.TryStar():
                return self._try(s, then, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._definition(s, then, scope)
            case _:
                return self._simple(s, then, scope)

    def _simple(self, s: ast.stmt, then: Node, scope: Scope) -> Node:
        match s:
            case ast.Return():
                node = self.step(s, scope, scope.returns(), raising=False)
                return self.value(s.value, node, scope)
            case ast.Raise():
                node = self.step(s, scope, raising=False)
                node.raises = scope.raises(called_name(s.exc))
                return self.values((s.exc, s.cause), node, scope)
            case ast.Break():
                return self.step(s, scope, scope.breaks(), raising=False)
            case ast.Continue():
                return self.step(s, scope, scope.continues(), raising=False)
            case ast.Assert():
                fails = self.step(s, scope, raising=False)
                fails.raises = scope.raises("AssertionError")
                return self.test(s.test, then, self.value(s.msg, fails, scope), scope)
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                return then
            case _:
                node = self.step(s, scope, then, raising=not is_quiet(s))
                return self.values(children(s), node, scope)

    def _definition(
        self, s: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, then: Node, scope: Scope
    ) -> Node:
        node = self.step(s, scope, then, raising=False)
        for one in s.decorator_list:  # applied from last to first
            node = self.step(one, scope, node, kind=Kind.CALL)
        if isinstance(s, ast.ClassDef):
            node = self.step(s, scope, node, kind=Kind.CALL)
            evaluated = [*s.decorator_list, *s.bases, *(one.value for one in s.keywords)]
        else:
            evaluated = [*s.decorator_list, *s.args.defaults, *filter(None, s.args.kw_defaults)]
        return self.values(evaluated, node, scope)

    def _while(self, s: ast.While, then: Node, scope: Scope) -> Node:
        head = self.node(Kind.WHILE, s.test, scope)
        head.loops = loops = (*scope.loops, head.number)
        inner = replace(scope, loops=loops)
        in_body = replace(inner, breaks=lambda: then, continues=lambda: head)
        body = self._block(s.body, head, in_body)
        after = self._block(s.orelse, then, scope)
        head.edges.append((NEXT, self.test(s.test, body, after, inner)))
        return head

    def _for(self, s: ast.For | ast.AsyncFor, then: Node, scope: Scope) -> Node:
        head = self.step(s, scope, kind=Kind.LOOP)
        head.loops = loops = (*scope.loops, head.number)
        inner = replace(scope, loops=loops, breaks=lambda: then, continues=lambda: head)
        body = self._block(s.body, head, inner)
        head.edges = [(ITERATES, body), (ENDED, self._block(s.orelse, then, scope))]
        return self.value(s.iter, head, scope)

    def _match(self, s: ast.Match, then: Node, scope: Scope) -> Node:
        bodies = [self._block(case.body, then, scope) for case in s.cases]
        rest = [self.node(Kind.MATCH, s, scope, (Outcome(Way.NO_CASE), then))]
        for case, body in zip(reversed(s.cases), reversed(bodies), strict=True):
            no = rest[-1]
            first = self.test(case.guard, body, no, scope) if case.guard is not None else body
            outcome = Outcome(Way.CASE, line=case.pattern.lineno)
            # After a false guard only the later cases are possible: they need their own node.
            node = self.step(s, scope, kind=Kind.MATCH)
            is_last = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            node.edges = [(outcome, first), *(() if is_last else no.edges)]
            rest.append(node)
        return self.value(s.subject, rest[-1], scope)

    def _with(self, s: ast.With | ast.AsyncWith, then: Node, scope: Scope) -> Node:
        def leaving(target: Target) -> Target:
            return cache(lambda: self.step(s, scope, target(), kind=Kind.LEAVE))

        @cache
        def caught() -> Node:
            node = self.step(s, scope, scope.raises(""), kind=Kind.UNWIND)
            if any(self._suppresses(item.context_expr) for item in s.items):
                handler = self.node(Kind.HANDLER, s, scope, (NEXT, then))
                node.edges.insert(0, (Outcome(Way.HANDLER, line=s.lineno), handler))
            return node

        inner = Scope(
            leaving(scope.returns), lambda _: caught(), leaving(scope.breaks),
            leaving(scope.continues), scope.loops,
        )  # fmt: skip
        node = self._block(s.body, leaving(lambda: then)(), inner)
        for item in reversed(s.items):
            node = self.step(item.context_expr, scope, node, kind=Kind.ENTER)
            node.line = s.lineno
            node = self.value(item.context_expr, node, scope)
        return node

    def _suppresses(self, manager: ast.expr) -> bool:
        name = called_name(manager)
        return name in _SUPPRESSING or any(map(_may_suppress, self._lookup(name)))

    def _try(self, s: ast.Try | ast.TryStar, then: Node, scope: Scope) -> Node:
        outer = scope
        if s.finalbody:

            def through(target: Target) -> Target:
                return cache(lambda: self._block(s.finalbody, target(), scope))

            @cache
            def caught() -> Node:
                body = self._block(s.finalbody, scope.raises(""), scope)
                return self.node(Kind.FINALLY, s, scope, (NEXT, body))

            then = through(lambda: then_after)() if (then_after := then) else then
            outer = Scope(
                through(scope.returns), lambda _: caught(), through(scope.breaks),
                through(scope.continues), scope.loops,
            )  # fmt: skip
        inner = outer
        if s.handlers:
            star = isinstance(s, ast.TryStar)
            inner = replace(outer, raises=self._handlers(s.handlers, then, outer, star=star))
        return self._block(s.body, self._block(s.orelse, then, outer), inner)

    def _handlers(
        self, handlers: Sequence[ast.ExceptHandler], then: Node, outer: Scope, *, star: bool
    ) -> Raises:
        """Return where an exception leads in a ``try`` with these handlers."""

        def entered(handler: ast.ExceptHandler, then: Node) -> Node:
            outside, self.head = self.head, handler
            body = self._block(handler.body, then, outer)
            node = self.node(Kind.HANDLER, handler, outer, (NEXT, body))
            self.head = outside
            return node

        def outcome(handler: ast.ExceptHandler) -> Outcome:
            return Outcome(Way.HANDLER, line=handler.lineno)

        if star:  # each handler may take a part of the group, and the rest is raised again
            rest = self.node(Kind.DISPATCH, None, outer, (NEXT, outer.raises("")), (NEXT, then))
            for one in reversed(handlers):
                edges = (outcome(one), entered(one, rest)), (Outcome(Way.NO_HANDLER), rest)
                rest = self.node(Kind.DISPATCH, None, outer, *edges)
            return lambda _: rest
        nodes = [entered(one, then) for one in handlers]
        dispatch = self.node(
            Kind.DISPATCH, None, outer,
            *((outcome(one), node) for one, node in zip(handlers, nodes, strict=True)),
        )  # fmt: skip
        if not any(_catches(one, "Exception") for one in handlers):
            dispatch.edges.append((Outcome(Way.NO_HANDLER), outer.raises("")))

        def raises(name: str) -> Node:
            for one, node in zip(handlers, nodes, strict=True):
                catches = _catches(one, name)
                if catches is None:
                    return dispatch
                if catches:
                    return node
            return outer.raises(name)

        return raises


def _catches(handler: ast.ExceptHandler, name: str) -> bool | None:
    """Whether a handler catches an exception of that name; None: not known."""
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    verdicts = {_is_a(name, called_name(kind)) for kind in kinds}
    return True if True in verdicts else None if None in verdicts else False


def _is_a(name: str, kind: str) -> bool | None:
    """Whether an exception is a subclass of ``kind``, by their names; None: not known."""
    if name and name == kind:
        return True
    one, other = (getattr(builtins, text, None) if text else None for text in (name, kind))
    if isinstance(one, type) and isinstance(other, type) and issubclass(one, BaseException):
        return issubclass(one, other)
    return None


def _may_suppress(manager: Function) -> bool:
    """Whether a context manager of the program may suppress an exception."""
    body: Sequence[ast.stmt] = getattr(manager.tree, "body", ())
    if isinstance(manager.tree, ast.ClassDef):
        leaving = (one for one in body if getattr(one, "name", "") in ("__exit__", "__aexit__"))
        return any(
            isinstance(one, ast.Return) and one.value is not None and not _is_false(one.value)
            for method in leaving
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            for one in statements(method.body)
        )
    return isinstance(manager.tree, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        isinstance(node, ast.Yield)
        for one in statements(body)
        if isinstance(one, ast.With | ast.AsyncWith)
        or (isinstance(one, ast.Try | ast.TryStar) and one.handlers)
        for inner in one.body
        for node in ast.walk(inner)
    )


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
