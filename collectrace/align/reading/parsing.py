"""Parse the text of source files. Results are cached by the text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_DEEPEST: Final = 16 << 10
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


def parse(text: str) -> ast.Module | None:
    """Return a new syntax tree of a text; None if it cannot be parsed."""
    if max(map(len, lines(text))) > _DEEPEST:
        return None
    try:
        with warnings.catch_warnings():
            # A compiler warns of "\\d" on standard error; that does not concern us.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a text, which callers share; None if it cannot be parsed."""
    return parse(text)


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
