"""The statements around a line of a file, and the functions that begin in the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final

from collectrace.align.reading import rank_only
from collectrace.align.reading.ways import Span

_MADE: Final = "torch_dynamo_resume_in_"
"""Begins the names of functions that torch._dynamo makes from parts of others (torch 2.13,
torch/_dynamo/resume_execution.py)."""


class Enclosing:
    """Those of one file; ``lines`` are the file's, without their ends."""

    def __init__(self, tree: ast.Module | None, lines: Sequence[str]) -> None:
        self._lines = lines
        self._spans: list[Span] = []
        """Of the statements that take several lines, and of parts with a head, as ``else`` has."""
        self._functions: dict[int, str] = {}
        """Names by the line where a function or class begins, its decorators included."""
        self._is_parsed = tree is not None
        try:
            if tree is not None and tree.body:
                self._add_block(tree.body)
        except RecursionError:
            self._spans, self._is_parsed = [], False

    def defines(self, name: str, first_line: int) -> bool:
        """Return whether a function of this name begins at a line, its decorators included.

        True for functions that Python or torch makes, and if the file could not be parsed.
        """
        if not self._is_parsed or name.startswith(("<", _MADE)):
            return True
        return self._functions.get(first_line) == name

    def heads(self, number: int) -> list[int]:
        """Return the first lines of the statements around a line, outermost first, and itself."""
        return sorted({span.first for span in self._spans if span.holds(number)} | {number})

    def _add_block(self, block: Sequence[ast.stmt]) -> int:
        """Take note of these statements; return the last line of the last."""
        for statement in block:
            self._add(statement)
        return block[-1].end_lineno or block[-1].lineno

    def _add(self, node: ast.stmt) -> None:
        head: ast.stmt | ast.pattern | ast.ExceptHandler
        end = node.end_lineno or node.lineno
        if end > node.lineno:
            self._spans.append(Span(node.lineno, end))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            begins = min(part.lineno for part in (node, *node.decorator_list))
            self._functions[begins] = node.name
            self._spans += [Span(line, end) for line in rank_only.lines_of(node)]
        end = node.lineno
        # In the order of the source.
        for name, value in ast.iter_fields(node):
            if not value:
                continue
            if name == "body":
                end = self._add_block(value)
            elif name in _PARTS:
                for part in value:
                    head = part.pattern if isinstance(part, ast.match_case) else part
                    end = self._add_block(part.body)
                    self._spans.append(Span(head.lineno, end))
            elif name in _KEYWORDS:
                found = self._find(_KEYWORDS[name], end, value[0].lineno)
                end = self._add_block(value)
                if found is not None:
                    self._spans.append(Span(found, end))

    def _find(self, keyword: re.Pattern[str], after: int, last: int) -> int | None:
        """Return the latest line up to ``last`` that begins so; None: ``elif`` needs none."""
        for number in range(last, after, -1):
            if keyword.match(self._lines[number - 1]):
                return number
        return None


_PARTS: Final = ("handlers", "cases")
"""Fields that hold parts of statements, which begin with a line of their own."""

_KEYWORDS: Final = {
    "orelse": re.compile(r"\s*else\s*:"),
    "finalbody": re.compile(r"\s*finally\s*:"),
}
"""Fields that hold statements, and the line above them, which is no node of the tree."""
