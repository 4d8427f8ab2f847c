"""The program's text as it was recorded."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.code.files import MOST_BYTES
from collectrace.align.reading.evidence import RunEvidence


class RecordedTexts:
    """The source files of a run, for ``code``."""

    def __init__(self, evidence: RunEvidence) -> None:
        self._evidence = evidence
        self._texts: dict[str, str | None] = {}

    def text(self, rank: int, path: str) -> str | None:  # noqa: ARG002
        """Return the text of a file as a rank ran it; None if it was not recorded."""
        if path not in self._texts:
            self._texts[path] = _read(path)
        return self._texts[path]


def _read(path: str) -> str | None:
    """Return a file's text as it is now; None: it cannot be read."""
    try:
        file = Path(path)
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
