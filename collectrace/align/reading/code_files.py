"""The files of the user's code as the ranks of a run ran them, by the paths that sites name."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from collectrace.align.reading import arms, chains, given, spans
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.spans import Spans
from collectrace.align.reading.ways import described
from collectrace.records import Source

_LONGEST: Final = 200
"""Characters of a line that are told."""


class Line(NamedTuple):
    """What is known of a line of the user's code."""

    statements: Sequence[str] = ()
    """The statements around it, as ``number text``, itself last: the first line of each ``if``,
    ``for``, ``while``, ``with``, ``try``, function and class that it is inside of, outermost first.
    An ``else`` is told as ``arms`` has it."""
    ways: Sequence[str] = ()
    """What may lead past it without enclosing it, as ``number leaves text``."""
    given: Sequence[str] = ()
    """The assignments behind the conditions among these, as ``head number text``."""


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
        self._lines: dict[str, Line] = {}

    def text(self, file: str) -> str:
        """Return the text of a file; empty if it is not known."""
        return self._sources.shared(file) or ""

    def lines(self, file: str) -> Sequence[str]:
        """Return the lines of a file; one that is empty if they are not known."""
        return spans.lines(self.text(file))

    def parsed(self, file: str) -> ast.Module | None:
        """Return what a file says, nothing if it is not known; None if it cannot be parsed."""
        return spans.parsed(self.text(file))

    def spans(self, file: str) -> Spans:
        """Return what is asked of a file."""
        return spans.of(self.text(file))

    def at(self, site: str | None) -> Line:
        """Return what is known of a line, given as ``path:line``."""
        site = site or ""
        found = self._lines.get(site)
        if found is None:
            found = self._lines[site] = self._line(site)
        return found

    def _line(self, site: str) -> Line:
        file, number = chains.split(site)
        lines = self.lines(file)
        known = self._recorded.get(site)
        if known is not None and not self.text(file):
            return Line(arms.told(known.lines), known.ways or (), known.given or ())
        if not 0 < number <= len(lines) or not lines[number - 1].strip():
            return Line()
        parsed = self.spans(file)
        heads = parsed.enclosing.heads(number)
        ways = parsed.ways.past(number)
        conditions = dict.fromkeys((*heads, *(way.head for way in ways)))
        return Line(
            arms.told([f"{n} {lines[n - 1].rstrip()[:_LONGEST]}" for n in heads]),
            [described(way, lines, _LONGEST) for way in ways],
            [
                given.described(head, n, lines, _LONGEST)
                for head in conditions
                for n in parsed.given.of(head)
            ],
        )
