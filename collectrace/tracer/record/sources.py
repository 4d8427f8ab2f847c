"""The source around lines of the user's code: what each is inside of, and what may lead past it.

Never read while a call is being recorded: the watchdog does it at its next turn.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from collectrace import given, rank_only
from collectrace.config import FULL
from collectrace.given import Given
from collectrace.records import Source, SourceFile
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.sites import UserLine
from collectrace.tracer.record.source_files import Texts, read
from collectrace.ways import Span, Ways, described

_MOST_FILES: Final = 500
"""Files that are read."""

_MOST_SITES: Final = 20_000

_MOST_TEXT: Final = 200
"""Characters of a line."""

_MADE: Final = "torch_dynamo_resume_in_"
"""Begins the names of functions that torch._dynamo makes from parts of others (torch 2.13,
torch/_dynamo/resume_execution.py)."""


class Sources:
    """The sources of one run's sites; ``level`` is one of ``config.SOURCES``, and not ``off``.

    ``patience``: see :class:`Texts`. ``news`` is called when there is something to look up.
    """

    def __init__(
        self,
        level: str = FULL,
        patience: int = 0,
        news: Callable[[], object] = lambda: None,
    ) -> None:
        self._is_full = level == FULL
        self.news = news
        self.texts = Texts(patience)
        self._asked: deque[UserLine] = deque()
        self._known: set[str] = set()
        """Sites asked for."""
        self._files: dict[str, _Read] = {}

    def ask(self, lines: Sequence[UserLine]) -> None:
        """Look these up later, unless they are known."""
        before = len(self._known)
        for line in lines:
            if line.site not in self._known and len(self._known) < _MOST_SITES:
                self._known.add(line.site)
                self._asked.append(line)
        if len(self._known) > before:
            self.news()

    def take(self, within: float) -> Iterator[SourceFile | Source]:
        """A record for each file, and each line in one, that was asked for since.

        After ``within`` seconds the rest is left for the next time.
        """
        until = time.monotonic() + within
        while self._asked and time.monotonic() < until:
            asked = self._asked.popleft()
            path, _, number = asked.site.rpartition(":")
            if path not in self._files and len(self._files) < _MOST_FILES:
                yield from self._read(path)
            known = self._files.get(path)
            if known is not None and (found := known.source(asked, int(number))):
                yield found

    def _read(self, path: str) -> Iterator[SourceFile]:
        file = read(path)
        lines = None if file is None or file.text is None else io.StringIO(file.text).readlines()
        self._files[path] = _Read(lines or [], is_parsed=self._is_full)
        if file is not None:
            if self._is_full:
                self.texts.add(path, file, now())
            yield SourceFile(path=path, sha256=file.sha256, size=len(file.data))


class _Read:
    """What is kept of a file: its lines, and what was parsed of it."""

    def __init__(self, lines: list[str], *, is_parsed: bool) -> None:
        self._lines = lines
        self._file: _File | None = None
        self._is_parsed = is_parsed
        if is_parsed and any(map(str.strip, lines)):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                self._file = _File(lines)

    def source(self, asked: UserLine, number: int) -> Source | None:
        """The record of a line; None if the file has no such line, or another function there."""
        if not self._is_parsed:
            if number > len(self._lines):
                return None
            return Source(site=asked.site, lines=[_line(self._lines, number)])
        file = self._file
        if file is None or not file.defines(asked) or not (lines := file.around(number)):
            return None
        ways = file.past(number)
        behind = file.given([*lines, *ways])
        return Source(site=asked.site, lines=lines, ways=ways or None, given=behind or None)


def _line(lines: Sequence[str], number: int) -> str:
    return f"{number} {lines[number - 1].rstrip()[:_MOST_TEXT]}"


class _File:
    """A file of Python that has been parsed; of the tree only what is asked for is kept."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._spans: list[Span] = []
        """Of the statements that take several lines, and of parts with a head, as ``else`` has."""
        self._functions: dict[int, str] = {}
        """Names by the line where a function or class begins, its decorators included."""
        tree = ast.parse(_without_escapes("".join(lines)))
        self._ways = Ways(tree)
        self._given = Given(tree)
        if tree.body:
            self._add_block(tree.body)

    def defines(self, line: UserLine) -> bool:
        """Whether the function of a line is where the code that runs was compiled from.

        The file may have been edited since.
        """
        if line.name.startswith(("<", _MADE)):
            return True
        return self._functions.get(line.first_line) == line.name

    def around(self, number: int) -> list[str]:
        """``number text`` of the first lines around a line, outermost first, and of itself."""
        if number > len(self._lines):
            return []
        heads = {span.first for span in self._spans if span.holds(number)} | {number}
        return [_line(self._lines, n) for n in sorted(heads)]

    def past(self, number: int) -> list[str]:
        """The ways past a line, as the record has them."""
        return [described(way, self._lines, _MOST_TEXT) for way in self._ways.past(number)]

    def given(self, heads: Sequence[str]) -> list[str]:
        """The assignments behind the conditions at these lines, as the record has them."""
        return [
            given.described(head, line, self._lines, _MOST_TEXT)
            for head in dict.fromkeys(int(head.partition(" ")[0]) for head in heads)
            for line in self._given.of(head)
        ]

    def _add_block(self, block: Sequence[ast.stmt]) -> int:
        """Take note of these statements; the last line of the last."""
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
        """The line that begins with this, the latest up to ``last``; None: ``elif`` needs none."""
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

_ESCAPE: Final = re.compile(r"\\(N\{[^}\n]*\}|.)", re.DOTALL)


def _without_escapes(text: str) -> str:
    r"""The same program with other strings in it.

    Of ``"\d"`` a compiler warns, on standard error, and has done so once already.
    """
    return _ESCAPE.sub(lambda found: found[0] if found[1] in "\\\n'\"" else "_", text)
