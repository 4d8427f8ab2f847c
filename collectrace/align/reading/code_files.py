"""The files of the user's code as the ranks of a run ran them, by the paths that sites name."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from collectrace.align.reading import chains, parsing
from collectrace.align.reading.parsing import Block
from collectrace.align.reading.source_files import SourceFiles
from collectrace.records import Source

_LONGEST: Final = 400
"""Characters of a line that was recorded by itself; tracers write 200."""


class CodeFiles:
    """The files of one run.

    A site names no rank. So nothing is known of a file of which the ranks ran different texts.

    ``texts``: those of the run. ``recorded``: what an older tracer, or one that records no texts,
    has written of single lines, by site; it counts if the text of the file is not known.
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
        """Return the lines of a file; one that is empty if they are not known."""
        return parsing.lines(self.text(file))

    def parsed(self, file: str) -> ast.Module | None:
        """Return what a file says, nothing if it is not known; None if it cannot be parsed."""
        return parsing.parsed(self.text(file))

    def around(self, site: str | None) -> list[Block]:
        """Return the blocks of statements around a line, in its function, outermost first."""
        file, number = chains.split(site)
        return parsing.around(self.text(file), number)

    def line(self, site: str | None) -> str:
        """Return a line, given as ``path:line``, without indentation; empty: it is not known."""
        file, number = chains.split(site)
        lines = self.lines(file)
        if 0 < number <= len(lines) and self.text(file):
            return lines[number - 1].strip()
        known = self._recorded.get(site or "")
        last = known.lines[-1] if known is not None and known.lines else ""
        return last[:_LONGEST].partition(" ")[2].strip()
