"""Places of a sentence, told as briefly as the excerpt above it allows.

A finding's sentences stand alone in the JSON, so each place is whole there: a statement, its file
and its line. Below an excerpt of the one file that they speak of, ``line 12`` says as much.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.findings import Finding

_QUOTED: Final = re.compile(r"(the loop )?(`[^`\n]+`) \((line \d+|[^\s()`:]+:\d+)\)")
"""A statement with its place, as ``phrases.statement`` writes it."""


class Places:
    """What the reader knows when a sentence of a finding comes."""

    def __init__(self, finding: Finding) -> None:
        """Begin with what the excerpt shows; no sentence has been read."""
        paths = {part.path for part in finding.excerpt or ()}
        self._shown: re.Pattern[str] | None = None
        if len(paths) == 1:
            file = re.escape(words.site(paths.pop()))
            self._shown = re.compile(rf"(?<![\w./-]){file}:(?=\d)")
        self._told: set[str] = set()

    def brief(self, text: str) -> str:
        """Return a text with ``line 12`` for a place in the file that is shown.

        A statement that was quoted before is named by its line only.
        """
        if self._shown is not None:
            text = self._shown.sub("line ", text)
        return _QUOTED.sub(self._again, text)

    def _again(self, found: re.Match[str]) -> str:
        loop, quoted, place = found.groups()
        if quoted + place not in self._told:
            self._told.add(quoted + place)
            return found.group()
        return f"{loop}at {place}" if loop else place
