"""The assignments that gave a condition's names their values: ``stop = time.time() > limit``.

By the tree of the source alone: the nearest above in the same function, or the only one of the
module. That no other has been run since, it does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from collectrace.align.reading.ways import Span

_MOST: Final = 6
"""Assignments of one condition."""

_FURTHEST: Final = 3
"""Assignments that lead to one another."""


class _Assignment(NamedTuple):
    line: int
    """The first of the statement."""
    end: int
    names: Sequence[str]
    """In its value."""


_Names = dict[str, list[_Assignment]]
"""The assignments to each name, in the order of the source."""


class Given:
    """Those of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._scopes: list[tuple[Span, _Names]] = []
        """The module first."""
        self._classes: list[Span] = []
        self._tests: dict[int, Sequence[str]] = {}
        """By the line of an ``if`` or ``while`` the names in its condition."""
        try:
            self._add(tree.body, Span(0, 1 << 30))
        except RecursionError:
            self._tests = {}

    def of(self, head: int) -> list[int]:
        """The lines of the assignments that the condition at a line goes back to.

        The nearest first: those of its own names, then those of the names in them.
        """
        found: dict[int, None] = {}
        reached = [(head, self._tests.get(head, ()))]
        for _ in range(_FURTHEST):
            new = [
                one
                for at, names in reached
                for name in names
                if (one := self._nearest(name, at)) is not None and one.line not in found
            ]
            found.update(dict.fromkeys(one.line for one in new))
            reached = [(one.line, one.names) for one in new]
        return list(found)[:_MOST]

    def _nearest(self, name: str, before: int) -> _Assignment | None:
        """The latest assignment to a name above a line of its function; else the module's only.

        Of an attribute of ``self`` the only one of the class.
        """
        mine = max((one for one in self._scopes if one[0].holds(before)), key=lambda one: one[0])
        here = mine[1].get(name, ())
        if here or mine is self._scopes[0]:
            return next((one for one in reversed(here) if one.end < before), None)
        everywhere = self._in_class(name, before) or self._scopes[0][1].get(name, [])
        return everywhere[0] if len(everywhere) == 1 else None

    def _in_class(self, name: str, at: int) -> list[_Assignment]:
        """The assignments to an attribute of ``self`` in the class around a line."""
        own = max((span for span in self._classes if span.holds(at)), default=None)
        if own is None or not name.startswith("self."):
            return []
        scopes = (names for span, names in self._scopes if own.holds(span.first))
        return [one for names in scopes for one in names.get(name, ())]

    def _add(self, body: Sequence[ast.stmt], scope: Span) -> None:
        names: _Names = {}
        self._scopes.append((scope, names))
        for node in _statements(body):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._add(node.body, Span(node.lineno, node.end_lineno or node.lineno))
                case ast.ClassDef():
                    self._classes.append(Span(node.lineno, node.end_lineno or node.lineno))
                case ast.If() | ast.While():
                    self._tests[node.lineno] = _names(node.test)
                case ast.Assign():
                    _note(names, node, node.targets, node.value)
                case ast.AugAssign():
                    _note(names, node, [node.target], node.value)
                case ast.AnnAssign() if node.value is not None:
                    _note(names, node, [node.target], node.value)
                case _:
                    pass


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a function, in the order of the source; not those of functions in it."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            inside = getattr(node, part, None)
            for block in inside if isinstance(inside, list) else ():
                yield from _statements([block] if isinstance(block, ast.stmt) else block.body)


def _note(names: _Names, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr) -> None:
    one = _Assignment(node.lineno, node.end_lineno or node.lineno, _names(value))
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for part in parts:
            if name := _name(part):
                names.setdefault(name, []).append(one)


def _names(value: ast.expr) -> list[str]:
    """The names in an expression, those of functions that it calls left out."""
    nodes = list(ast.walk(value))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = (_name(node) for node in nodes if id(node) not in called)
    return list(dict.fromkeys(name for name in found if name))


def _name(node: ast.AST) -> str:
    """``stop``, ``self.stop``; empty: it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def described(head: int, line: int, lines: Sequence[str], longest: int) -> str:
    """As a ``source`` record has it: ``14 12 stop = time.time() > limit``.

    ``lines`` are those of the file, of which so many characters are kept.
    """
    return f"{head} {line} {lines[line - 1].strip()[:longest]}"
