"""The files of the user's code as the ranks ran them, by the paths in call sites."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from collectrace.align.reading import chains, parsing
from collectrace.align.reading.source_files import SourceFiles
from collectrace.records import Source

_LONGEST: Final = 400
"""Characters of a line that was recorded singly; tracers write 200."""


class CodeFiles:
    """The source files of one run.

    A site does not name its rank. So a file counts as unknown if the ranks ran different texts of
    it.

    ``texts`` are those of the run. ``recorded`` holds single lines by site, from an older tracer or
    one that records no texts. It counts only if the text of the file is unknown.
    """

    def __init__(
        self, texts: SourceFiles | None = None, recorded: Mapping[str, Source] | None = None
    ) -> None:
        self._sources = texts or SourceFiles()
        self._recorded = recorded or {}

    def text(self, file: str) -> str:
        """Return the text of a file; empty if it is not known."""
        return self._sources.shared(file) or ""

    def lines(self, file: str) -> Sequence[str]:
        """Return the lines of a file; a single empty one if they are not known."""
        return parsing.lines(self.text(file))

    def parsed(self, file: str) -> ast.Module | None:
        """Return a file's syntax tree (empty: text unknown); None: it cannot be parsed."""
        return parsing.parsed(self.text(file))

    def line(self, site: str | None) -> str:
        """Return a line, given as ``path:line``, without indentation; empty if it is not known."""
        file, number = chains.split(site)
        lines = self.lines(file)
        if 0 < number <= len(lines) and self.text(file):
            return lines[number - 1].strip()
        known = self._recorded.get(site or "")
        last = known.lines[-1] if known is not None and known.lines else ""
        return last[:_LONGEST].partition(" ")[2].strip()
