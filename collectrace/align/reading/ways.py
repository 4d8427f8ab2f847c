"""Statements that may lead past a line without enclosing it.

A guard that returns early, a handler that goes on with the next round of a loop. By the tree of the
source alone: whether a condition was ever true, it does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

Leaves = Literal["return", "continue", "break", "raise", "pass"]
"""By what statement; ``pass``: by none, a handler behind which the program goes on."""

LEAVES: Final[tuple[Leaves, ...]] = get_args(Leaves)

_MOST: Final = 12
"""Ways past one line."""


class Span(NamedTuple):
    """Lines, both included."""

    first: int
    last: int

    def holds(self, number: int) -> bool:
        """Whether a line is one of them."""
        return self.first <= number <= self.last

    def covers(self, other: Span) -> bool:
        """Whether all lines of another are of this."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class Way:
    """A head whose block leads past lines of its function."""

    head: int
    """The line of the ``if``, ``except`` or whatever decides."""
    leaves: Leaves
    begin: int
    """The line behind which it is: of a handler, that of its ``try``."""
    region: Span
    """What it leads out of: the loop, or the function."""
    scope: Span
    """The function."""
    spared: tuple[Span, ...]
    """What it does not lead past, or is told of otherwise: its own statement."""
    loops: tuple[Span, ...]
    """Around it, in the function."""

    def leads_past(self, number: int) -> bool:
        """Whether a line of the same function may be left out by it, in this round or the next."""
        if not self.region.holds(number) or any(span.holds(number) for span in self.spared):
            return False
        again = self.leaves in ("return", "break", "raise")
        return number > self.begin or (again and any(loop.holds(number) for loop in self.loops))


class Ways:
    """Those of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._scopes: list[Span] = []
        self._ways: list[Way] = []
        whole = Span(0, max((_end(node) for node in tree.body), default=1))
        try:
            self._add_scope(tree.body, whole)
        except RecursionError:
            self._ways = []

    def past(self, number: int) -> list[Way]:
        """The ways past a line, in the order of the source; the nearest where there are many."""
        around = (one for one in self._scopes if one.holds(number))
        scope = max(around, key=lambda one: (one.first, -one.last), default=None)
        found = {
            (way.head, way.leaves): way
            for way in self._ways
            if way.scope == scope and way.leads_past(number)
        }
        nearest = sorted(found.values(), key=lambda way: abs(way.head - number))[:_MOST]
        return sorted(nearest, key=lambda way: way.head)

    def _add_scope(self, body: Sequence[ast.stmt], scope: Span) -> None:
        self._scopes.append(scope)
        self._ways += _Walk(self._add_scope, scope).block(body, None, ())


class _Head(NamedTuple):
    """What decides whether a block is run."""

    line: int
    begin: int
    spared: tuple[Span, ...]
    is_loop: bool = False
    handles: Span | None = None
    """Its own lines, if it is an ``except``."""
    handler: _Head | None = None
    """The ``except`` in which it is, if no loop is between."""


_AddScope = Callable[[Sequence[ast.stmt], Span], None]
"""Takes the body of a nested function."""


_Loops = tuple[ast.For | ast.AsyncFor | ast.While, ...]
"""Around a statement, outermost first."""


class _Walk:
    """Through one function; functions in it are handed on."""

    def __init__(self, nested: _AddScope, scope: Span) -> None:
        self._nested = nested
        self._scope = scope
        self._apart: list[Span] = []
        """Other branches of what the present statement is in."""

    def block(self, body: Iterable[ast.stmt], head: _Head | None, loops: _Loops) -> Iterator[Way]:
        """The ways that begin in a block, whose innermost head is given."""
        for node in body:
            yield from self._statement(node, head, loops)

    def _statement(self, node: ast.stmt, head: _Head | None, loops: _Loops) -> Iterator[Way]:
        match node:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                if head is not None:
                    yield from self._leaving(_leaves(node), head, loops)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._nested(node.body, Span(node.lineno, _end(node)))
            case ast.If():
                handler = head and (head if head.handles else head.handler)
                own = _Head(node.lineno, node.lineno, (_span(node),), handler=handler)
                for arm, other in ((node.body, node.orelse), (node.orelse, node.body)):
                    with self._beside(other):
                        yield from self.block(arm, own, loops)
            case ast.For() | ast.AsyncFor() | ast.While():
                yield from self._loop(node, head, loops)
            case ast.Match():
                for case in node.cases:
                    own = _Head(case.pattern.lineno, node.lineno, (_span(node),))
                    yield from self.block(case.body, own, loops)
            case ast.With() | ast.AsyncWith():
                yield from self._with(node, head, loops)
            case ast.Try() | ast.TryStar():
                yield from self._try(node, head, loops)
            case ast.ClassDef():
                yield from self.block(node.body, head, loops)
            case _:
                pass

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, head: _Head | None, loops: _Loops
    ) -> Iterator[Way]:
        inner = _Head(node.lineno, node.lineno, (_span(node),), is_loop=True)
        decides = head if _is_endless(node) else inner
        yield from self.block(node.body, decides, (*loops, node))
        yield from self.block(node.orelse, inner, loops)

    def _with(
        self, node: ast.With | ast.AsyncWith, head: _Head | None, loops: _Loops
    ) -> Iterator[Way]:
        if any(_is_suppress(item.context_expr) for item in node.items):
            own = _Head(node.lineno, node.lineno, ())
            yield self._way("pass", own, Span(node.body[0].lineno, _end(node)), loops)
        yield from self.block(node.body, head, loops)

    def _try(self, node: ast.Try | ast.TryStar, head: _Head | None, loops: _Loops) -> Iterator[Way]:
        spared = []
        if node.handlers:
            spared.append(Span(node.handlers[0].lineno, _end(node.handlers[-1])))
        if node.finalbody:
            spared.append(Span(node.finalbody[0].lineno, _end(node)))
        for handler in node.handlers:
            own = _Head(handler.lineno, node.lineno, tuple(spared), handles=_span(handler))
            yield from self.block(handler.body, own, loops)
            last = handler.body[-1]
            if not isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue):
                inside = Span(node.body[0].lineno, _end((node.orelse or node.body)[-1]))
                yield self._way("pass", own, inside, loops)
        with self._beside(node.handlers):
            yield from self.block([*node.body, *node.orelse], head, loops)
        yield from self.block(node.finalbody, head, loops)

    @contextmanager
    def _beside(self, other: Sequence[ast.stmt | ast.ExceptHandler]) -> Iterator[None]:
        """While a branch is gone through: what is run in place of it."""
        if other:
            self._apart.append(Span(other[0].lineno, _end(other[-1])))
        yield
        if other:
            self._apart.pop()

    def _leaving(self, leaves: Leaves, head: _Head, loops: _Loops) -> Iterator[Way]:
        if leaves in ("return", "raise"):
            yield from self._jump(leaves, head, self._scope, loops)
        elif loops and not (head.is_loop and head.line == loops[-1].lineno):
            loop = loops[-1]
            # A break leads past the `else` of a loop, and past what its head calls in each turn.
            region = (
                _span(loop) if leaves == "break" else Span(loop.lineno + 1, _end(loop.body[-1]))
            )
            yield from self._jump(leaves, head, region, loops)

    def _jump(self, leaves: Leaves, head: _Head, region: Span, loops: _Loops) -> Iterator[Way]:
        """The ways of one statement. Of an ``if`` in a handler it is two.

        Past the other lines of the handler it leads by what it asks; past those outside, whatever
        it asks, by the exception.
        """
        handles = head.handler.handles if head.handler is not None else None
        if head.handler is None or handles is None or handles.covers(region):
            yield self._way(leaves, head, region, loops)
        else:
            yield self._way(leaves, head, handles, loops)
            yield self._way(leaves, head.handler, region, loops)

    def _way(self, leaves: Leaves, head: _Head, region: Span, loops: _Loops) -> Way:
        around = tuple(_span(loop) for loop in loops)
        spared = (*head.spared, *self._apart)
        return Way(head.line, leaves, head.begin, region, self._scope, spared, around)


def described(way: Way, lines: Sequence[str], longest: int) -> str:
    """As a ``source`` record has it: ``46 return if not found:``.

    ``lines`` are those of the file, of which so many characters are kept.
    """
    return f"{way.head} {way.leaves} {lines[way.head - 1].strip()[:longest]}"


def _leaves(node: ast.Return | ast.Raise | ast.Break | ast.Continue) -> Leaves:
    match node:
        case ast.Return():
            return "return"
        case ast.Raise():
            return "raise"
        case ast.Break():
            return "break"
        case _:
            return "continue"


def _is_endless(node: ast.stmt) -> bool:
    """``while True``: it decides nothing."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant)


def _is_suppress(node: ast.expr) -> bool:
    """``contextlib.suppress(...)``, by its name."""
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "suppress"


def _end(node: ast.stmt | ast.ExceptHandler) -> int:
    return node.end_lineno or node.lineno


def _span(node: ast.stmt | ast.ExceptHandler) -> Span:
    return Span(node.lineno, _end(node))
