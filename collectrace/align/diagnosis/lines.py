"""Lines of the user's code, where the file can still be read.

Sites come from logs and may name anything: only Python files of usual size are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from collectrace.findings import SourceLine

_LARGEST: Final = 2 << 20
"""Bytes of a file that is worth reading; no script is larger."""

_LONGEST: Final = 200
_DEEPEST: Final = 4 << 10
"""Characters of a line; beyond it a file is data, or meant to exhaust the parser."""


def of_site(site: str | None) -> SourceLine | None:
    """The line that a site names, without its indentation."""
    file, number = _split(site)
    text = _read(file)
    if text is None or number < 1:
        return None
    lines = text.splitlines()
    if number > len(lines):
        return None
    line = lines[number - 1].strip()[:_LONGEST]
    return SourceLine(site=site or "", text=line) if line else None


def loop_left(site: str | None, other: str | None) -> int | None:
    """The first line of the outermost loop that ``other`` is in and ``site`` stands after.

    None where there is none, or the two are not in one function. It holds for the file as it is
    now, which may have been changed since the run.
    """
    file, number = _split(site)
    other_file, other_number = _split(other)
    if file != other_file or number <= other_number:
        return None
    spans = _spans(file)
    if _innermost(spans.functions, number) != _innermost(spans.functions, other_number):
        return None
    found = [loop for loop in spans.loops if loop[0] <= other_number <= loop[1] < number]
    return min(found)[0] if found else None


@dataclass(frozen=True)
class _Spans:
    """First and last line of each loop and each function of a file."""

    loops: tuple[tuple[int, int], ...] = ()
    functions: tuple[tuple[int, int], ...] = ()


def _innermost(spans: Iterable[tuple[int, int]], line: int) -> tuple[int, int] | None:
    return max((span for span in spans if span[0] <= line <= span[1]), default=None)


def _split(site: str | None) -> tuple[str, int]:
    file, _, number = (site or "").rpartition(":")
    return file, int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0


@lru_cache(maxsize=64)
def _read(file: str) -> str | None:
    if not file.endswith(".py"):
        return None
    try:
        path = Path(file)
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _spans(file: str) -> _Spans:
    text = _read(file)
    if text is None or max(map(len, text.splitlines()), default=0) > _DEEPEST:
        return _Spans()
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Spans()
    return _Spans(
        tuple(_span(n) for n in nodes if isinstance(n, ast.For | ast.While | ast.AsyncFor)),
        tuple(_span(n) for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)),
    )


def _span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno
