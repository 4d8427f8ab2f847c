"""What is parsed of the text of a file: loops, functions, branches, calls, and more.

All of it depends on the text alone. What was parsed is kept by the text, for whoever has the same.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from collectrace.align.reading import bindings, rank_only
from collectrace.align.reading.bindings import Bindings
from collectrace.align.reading.enclosing import Enclosing
from collectrace.align.reading.given import Given
from collectrace.align.reading.ways import Ways

_DEEPEST: Final = 4 << 10
"""Characters of a line; beyond it a file is data, or meant to exhaust the parser."""


@lru_cache(maxsize=64)
def lines(text: str) -> Sequence[str]:
    """Return the lines of a text, without their ends."""
    # Not splitlines(): to the parser a form feed, or U+2028, ends no line.
    return tuple(text.split("\n"))


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module | None:
    """Return what a text says as Python; None if it cannot be parsed."""
    if max(map(len, lines(text))) > _DEEPEST:
        return None
    try:
        with warnings.catch_warnings():
            # Of "\\d" a compiler warns, on standard error; the program has been told.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Called(NamedTuple):
    """A call in a file."""

    name: str
    """Of the function or method."""
    of: str
    """The last name of what it is asked of: ``dist``; empty: it is called by its name alone."""
    first: int
    """Its lines, both included."""
    last: int


@dataclass(frozen=True)
class Spans:
    """What is asked of a file: first and last line of each loop and function, and more."""

    loops: tuple[tuple[int, int], ...] = ()
    functions: tuple[tuple[int, int], ...] = ()
    blocks: tuple[tuple[int, int, int, int], ...] = ()
    """Of each compound statement its own line, that of its part (``else:``, else the same), and the
    first and last line of what that encloses."""
    forked: frozenset[int] = frozenset()
    """Lines of each ``if`` that has an ``else`` or an ``elif``."""
    leaving: frozenset[int] = frozenset()
    """Lines of each ``if`` whose body ends in leaving: a loop's turn, a function, the process.

    But for those behind which the others leave as well, without a call."""
    bare: frozenset[int] = frozenset()
    """Lines of those that have no ``else``, and call nothing before, or print it."""
    tries: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """Of each ``try`` the first and last line of its body, and the lines of its ``except``."""
    ways_out: Mapping[int, int] = field(default_factory=dict)
    """By the line of a loop that of its first ``break`` or ``return``."""
    calls: tuple[Called, ...] = ()
    """Every call of a function or method."""
    either_way: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By the line of each ``if`` with an ``else``, the names that all of its branches call."""
    ways: Ways = field(default_factory=lambda: Ways(ast.Module([], [])))
    given: Given = field(default_factory=lambda: Given(ast.Module([], [])))
    bindings: Bindings = field(default_factory=Bindings)
    imports: tuple[tuple[int, str], ...] = ()
    """Of each module that it imports, how many dots stand before it, and its name."""
    enclosing: Enclosing = field(default_factory=lambda: Enclosing(None, ()))


@lru_cache(maxsize=64)
def of(text: str) -> Spans:
    """Return what is asked of a text; nothing if it cannot be parsed, or is too deep."""
    tree = parsed(text)
    try:
        return _spans(tree, lines(text)) if tree is not None else Spans()
    except RecursionError:
        return Spans()


def _spans(tree: ast.Module, lines: Sequence[str]) -> Spans:
    nodes = list(ast.walk(tree))
    return Spans(
        tuple(_span(n) for n in nodes if isinstance(n, _LOOPS)),
        tuple(_span(n) for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)),
        tuple(block for n in nodes for block in _blocks(n, lines)),
        frozenset(n.lineno for n in nodes if isinstance(n, ast.If) and n.orelse),
        frozenset(line for n in nodes for line in _leaving(n)),
        frozenset(n.lineno for n in nodes if isinstance(n, ast.If) and _is_bare(n)),
        tuple(
            (n.body[0].lineno, _span(n.body[-1])[1], tuple(h.lineno for h in n.handlers))
            for n in nodes
            if isinstance(n, ast.Try) and n.handlers
        ),
        {
            n.lineno: min(ways)
            for n in nodes
            if isinstance(n, _LOOPS) and (ways := list(_ways_out(n.body, breaks=True)))
        },
        tuple(_called(n) for n in nodes if isinstance(n, ast.Call)),
        _either_way(nodes),
        Ways(tree),
        Given(tree),
        bindings.of(tree),
        tuple(dict.fromkeys(one for n in nodes for one in _modules(n))),
        Enclosing(tree, lines),
    )


def _modules(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Return the modules that a statement imports, or may import by their names."""
    if isinstance(node, ast.Import):
        yield from ((0, one.name) for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.module:
            yield node.level, node.module
        inner = f"{node.module}." if node.module else ""
        yield from ((node.level, f"{inner}{one.name}") for one in node.names if one.name != "*")


def _leaving(node: ast.AST) -> Iterator[int]:
    """The lines of each ``if`` of a statement's blocks that leaves what is behind it to others."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for n, one in enumerate(block):
            rest = block[n + 1 :]
            is_whole = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            leaves_too = _leaves(rest[-1]) if rest else is_whole
            ends = leaves_too and _calls(rest) <= _PRINT
            if isinstance(one, ast.If) and _leaves(one.body[-1]) and not ends:
                yield one.lineno


def _leaves(node: ast.stmt) -> bool:
    """Whether nothing behind a statement is come to from it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name in ("exit", "_exit", "quit", "abort")
    return isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break)


def _is_bare(node: ast.If) -> bool:
    """Whether an ``if`` does nothing but leave, or go on."""
    return _leaves(node.body[-1]) and not node.orelse and _calls(node.body) <= _PRINT


def _called(node: ast.Call) -> Called:
    first, last = node.lineno, node.end_lineno or node.lineno
    if isinstance(node.func, ast.Attribute):
        return Called(node.func.attr, _last_name(node.func.value) or "?", first, last)
    return Called(_last_name(node.func), "", first, last)


def _last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _either_way(nodes: Sequence[ast.AST]) -> dict[int, frozenset[str]]:
    """Return the names that all branches of each ``if`` call, by the line of the ``if``.

    ``nodes`` has each node before its children. So no depth of nesting exhausts the stack.
    """
    found: dict[int, frozenset[str]] = {}
    for node in reversed(nodes):
        if isinstance(node, ast.If) and node.orelse:
            found[node.lineno] = _surely(node.body, found) & _surely(node.orelse, found)
    return found


def _surely(block: Sequence[ast.stmt], either_way: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return the names that a block calls, whatever the conditions and loops in it decide."""
    parts = [part for one in block for part in ast.iter_child_nodes(one)]
    inner = (either_way.get(one.lineno, ()) for one in block if isinstance(one, ast.If))
    return frozenset(_calls([part for part in parts if not isinstance(part, _IN_BLOCKS)])).union(
        *inner
    )


_IN_BLOCKS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)


def _calls(block: Sequence[ast.AST]) -> set[str]:
    """The names of what some statements call."""
    called = [one for part in block for one in ast.walk(part) if isinstance(one, ast.Call)]
    return {_last_name(one.func) for one in called}


_PRINT: Final = frozenset({"print", "debug", "info", "warning", "warn"})


_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)


def _ways_out(body: Sequence[ast.AST], *, breaks: bool) -> Iterator[int]:
    """Lines of ``return`` and, where they end the loop in question, of ``break``."""
    for node in body:
        if isinstance(node, ast.Return) or (breaks and isinstance(node, ast.Break)):
            yield node.lineno
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            inside = list(ast.iter_child_nodes(node))
            yield from _ways_out(inside, breaks=breaks and not isinstance(node, _LOOPS))


def _blocks(node: ast.AST, lines: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """What a compound statement encloses: an ``else`` with the line of its ``if`` and its own.

    A ``finally`` has its own line alone. They are no nodes of the tree.
    """
    line = getattr(node, "lineno", None)
    if line is None or isinstance(node, ast.expr):
        return
    end = line
    for at in rank_only.lines_of(node):
        yield at, at, at + 1, getattr(node, "end_lineno", None) or at
    for name in ("body", "orelse", "finalbody"):
        inside = getattr(node, name, None)
        if isinstance(inside, list) and inside and isinstance(inside[0], ast.stmt):
            last = inside[-1]
            above = range(inside[0].lineno, end, -1)
            part = next((n for n in above if _PARTS[name].match(lines[n - 1])), line)
            head = part if name == "finalbody" else line
            yield head, part, inside[0].lineno, last.end_lineno or last.lineno
            end = (getattr(node, "handlers", None) or inside)[-1].end_lineno or end


_PARTS: Final = {
    "body": re.compile(r"(?!)"),
    "orelse": re.compile(r"\s*else\s*:"),
    "finalbody": re.compile(r"\s*finally\s*:"),
}


def _span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno
