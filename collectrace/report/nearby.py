"""Shorten the places in a sentence that the excerpt above it shows.

In the JSON, a finding's sentences have no excerpt, so each place is complete: a statement, its
file and its line. Below an excerpt of that file, ``line 12`` is enough.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.findings import Finding

_QUOTED: Final = re.compile(r"(the loop )?(`[^`\n]+`) \((line \d+|[^\s()`:]+:\d+)\)")
"""A statement with its place, as ``phrases.statement`` writes it."""


class Places:
    """The places that the reader of a finding has seen already."""

    def __init__(self, finding: Finding) -> None:
        """Begin with what the excerpt shows; no sentence has been read."""
        paths = {part.path for part in finding.excerpt or ()}
        self._shown: re.Pattern[str] | None = None
        if len(paths) == 1:
            file = re.escape(words.site(paths.pop()))
            self._shown = re.compile(rf"(?<![\w./-]){file}:(?=\d)")
        self._quoted_before: set[str] = set()

    def brief(self, text: str) -> str:
        """Return the text with ``line 12`` for each place in the excerpt's file.

        A statement that was quoted before is replaced by its line: ``the `if` in line 12``.
        """
        if self._shown is not None:
            text = self._shown.sub("line ", text)
        return _QUOTED.sub(self._shorten, text)

    def _shorten(self, found: re.Match[str]) -> str:
        loop, quoted, place = found.groups()
        if quoted + place not in self._quoted_before:
            self._quoted_before.add(quoted + place)
            return found.group()
        at = "in" if place.startswith("line ") else "at"
        head = _HEAD.match(quoted)
        if loop:
            return f"{loop}{at} {place}"
        return f"the `{head[1]}` {at} {place}" if head else place


_HEAD: Final = re.compile(r"`(if|elif|while|for|with|try|except)\b")
"""The keyword of a statement that other lines are under."""
