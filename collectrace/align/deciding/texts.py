"""The program's text as it was recorded."""

from __future__ import annotations

from collectrace.align.reading.source_files import SourceFiles


class RecordedTexts:
    """The source files of a run, for ``code``."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files

    def text(self, rank: int, path: str) -> str | None:
        """Return the text of a file as a rank ran it; None if it was not recorded."""
        found = self._files.text_of(rank, path)
        return None if found is None else found.text
