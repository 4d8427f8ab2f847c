"""The files of the user's code that calls come from: what is recorded of their text.

Never read while a call is being recorded: the watchdog does it at its next turn. Nothing is parsed
here: that is the reader's affair.
"""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from collectrace.config import FULL
from collectrace.records import Source, SourceFile
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.sites import UserLine
from collectrace.tracer.record.source_files import Texts, read

_MOST_FILES: Final = 500
"""Files that are read."""

_MOST_SITES: Final = 20_000

_MOST_TEXT: Final = 200
"""Characters of a line."""


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
        """Sites asked for or, where texts are recorded as a whole, paths."""
        self._lines: dict[str, Sequence[str]] = {}
        """By path, of the files that were read; empty where the text is recorded as a whole."""

    def ask(self, lines: Sequence[UserLine]) -> None:
        """Look these up later, unless they are known."""
        before = len(self._known)
        for line in lines:
            key = line.site.rpartition(":")[0] if self._is_full else line.site
            if key not in self._known and len(self._known) < _MOST_SITES:
                self._known.add(key)
                self._asked.append(line)
        if len(self._known) > before:
            self.news()

    def take(self, within: float) -> Iterator[SourceFile | Source]:
        """Yield a record for each file that was asked for since, and for each line by itself.

        After ``within`` seconds the rest is left for the next time.
        """
        until = time.monotonic() + within
        while self._asked and time.monotonic() < until:
            site = self._asked.popleft().site
            path, _, digits = site.rpartition(":")
            if path not in self._lines and len(self._lines) < _MOST_FILES:
                yield from self._read(path)
            lines, number = self._lines.get(path, ()), int(digits)
            if number <= len(lines):
                line = lines[number - 1].rstrip()[:_MOST_TEXT]
                yield Source(site=site, lines=[f"{number} {line}"])

    def _read(self, path: str) -> Iterator[SourceFile]:
        file = read(path)
        self._lines[path] = ()
        if file is None:
            return
        if self._is_full:
            self.texts.add(path, file, now())
        elif file.text is not None:
            self._lines[path] = io.StringIO(file.text).readlines()
        yield SourceFile(path=path, sha256=file.sha256, size=len(file.data))
