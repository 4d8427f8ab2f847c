"""Parse the text of source files. Results are cached by the text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_DEEPEST: Final = 4 << 10
"""Characters of a line; beyond it a file is data, or is meant to exhaust the parser."""

_MADE: Final = "torch_dynamo_resume_in_"
"""Prefix of the names of functions that torch._dynamo makes from parts of others (torch 2.13,
torch/_dynamo/resume_execution.py)."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@lru_cache(maxsize=64)
def lines(text: str) -> Sequence[str]:
    """Return the lines of a text, without their ends."""
    # Not splitlines(): the parser does not end a line at a form feed or U+2028.
    return tuple(text.split("\n"))


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a text; None if it cannot be parsed."""
    if max(map(len, lines(text))) > _DEEPEST:
        return None
    try:
        with warnings.catch_warnings():
            # A compiler warns of "\\d" on standard error; that does not concern us.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=64)
def _beginnings(text: str) -> frozenset[tuple[str, int]] | None:
    tree = parsed(text)
    if tree is None:
        return None
    nodes = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    return frozenset(
        (node.name, min(part.lineno for part in (node, *node.decorator_list))) for node in nodes
    )


def defines(text: str, name: str, first_line: int) -> bool:
    """Return whether a function of this name begins at a line, its decorators included.

    True for functions that Python or torch makes, and if the text could not be parsed.
    """
    found = _beginnings(text)
    if found is None or name.startswith(("<", _MADE)):
        return True
    return (name, first_line) in found


class Block(NamedTuple):
    """A part of a statement that encloses a line."""

    statement: ast.stmt
    part: str
    """``body``, ``orelse``, ``handlers``, ``finalbody``, ``cases``."""


def around(text: str, line: int) -> list[Block]:
    """Return the blocks of statements around a line, within its function, outermost first."""
    tree = parsed(text)
    found: list[Block] = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and node.lineno < line <= (node.end_lineno or 0):
            if isinstance(node, _FUNCTIONS):
                found.clear()
                continue
            part = next((name for name, first, last in _parts(node) if first <= line <= last), "")
            found += [Block(node, part)] if part else []
    return found


def _parts(node: ast.stmt) -> Iterator[tuple[str, int, int]]:
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        those = list(getattr(node, name, None) or ())
        if those:
            first, last = those[0], those[-1]
            begin = first.pattern.lineno if isinstance(first, ast.match_case) else first.lineno
            end = last.body[-1] if isinstance(last, ast.match_case) else last
            yield name, begin, end.end_lineno or begin
