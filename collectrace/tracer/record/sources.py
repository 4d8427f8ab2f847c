"""Record the text of the files that calls come from.

Files are never read while a call is being recorded: the watchdog reads them later. They are not
parsed here, but by the reader of the record.
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
from collectrace.tracer.record.source_files import Texts, read

_MOST_FILES: Final = 500
"""Files that are read."""

_MOST_SITES: Final = 20_000

_MOST_TEXT: Final = 200
"""Characters of a line."""

_MOST_OF_LIBRARIES: Final = 16 << 20
"""Bytes of all files of libraries together."""


class Sources:
    """The sources of one run's sites; ``level`` is the option's value, but not ``off``.

    ``patience``: see :class:`Texts`. ``news`` is called when there are new lines to read.
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
        self._asked: deque[str] = deque()
        """Sites."""
        self._known: set[str] = set()
        """Requested sites; paths if whole files are recorded."""
        self._lines: dict[str, Sequence[str]] = {}
        """Lines of the files that were read, by path; empty if whole files are recorded."""
        self._of_libraries: set[str] = set()
        """Paths."""
        self._left_for_libraries = _MOST_OF_LIBRARIES

    def ask(self, sites: Sequence[str]) -> None:
        """Request these lines of the user's code, unless they are known."""
        before = len(self._known)
        for site in sites:
            key = site.rpartition(":")[0] if self._is_full else site
            if key not in self._known and len(self._known) < _MOST_SITES:
                self._known.add(key)
                self._asked.append(site)
        if len(self._known) > before:
            self.news()

    def ask_library(self, sites: Sequence[str]) -> None:
        """Request the files of these lines of libraries, if whole files are recorded."""
        if self._is_full:
            self._of_libraries.update(site.rpartition(":")[0] for site in sites)
            self.ask(sites)

    def take(self, within: float) -> Iterator[SourceFile | Source]:
        """Yield a record for each newly requested file, and for each single line.

        After ``within`` seconds the rest is left for the next time.
        """
        until = time.monotonic() + within
        while self._asked and time.monotonic() < until:
            site = self._asked.popleft()
            path, _, digits = site.rpartition(":")
            if path not in self._lines and len(self._lines) < _MOST_FILES:
                yield from self._read(path)
            lines, number = self._lines.get(path, ()), int(digits)
            if 0 < number <= len(lines):  # a frame that is being set up is at line 0
                line = lines[number - 1].rstrip()[:_MOST_TEXT]
                yield Source(site=site, lines=[f"{number} {line}"])

    def _read(self, path: str) -> Iterator[SourceFile]:
        file = read(path)
        self._lines[path] = ()
        if file is None:
            return
        if self._is_full:
            if self._has_room(path, len(file.data)):
                self.texts.add(path, file, now())
        elif file.text is not None:
            self._lines[path] = io.StringIO(file.text).readlines()
        yield SourceFile(path=path, sha256=file.sha256, size=len(file.data))

    def _has_room(self, path: str, size: int) -> bool:
        """Return whether the text of a file may be recorded: libraries have a limit in total."""
        if path not in self._of_libraries:
            return True
        if size > self._left_for_libraries:
            return False
        self._left_for_libraries -= size
        return True
