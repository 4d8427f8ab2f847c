"""The program's text as the ranks have recorded it: which text each of them ran under a path.

A log comes from anywhere. A text counts only if its hash is the one that was recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from collectrace import source_text
from collectrace.align.reading.source import Blob
from collectrace.errors import LogError
from collectrace.log_folder import SOURCE_FILE, is_source

_MOST_KEPT: Final = 32 << 20
"""Characters of texts kept in memory."""

Recorded = Mapping[str, str]
"""By path the hash of the text that one rank has recorded."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text that a rank ran under a path."""

    text: str
    sha256: str
    is_borrowed: bool = False
    """The rank has not recorded which text it ran, and all peers that have agree on this one."""


class SourceFiles:
    """The texts of a run, each read when it is asked for.

    ``recorded``: by rank, as far as it has been read by now. ``files``: those of the log folder.
    ``asked``: texts that a rank itself can be asked for, by hash.
    """

    def __init__(
        self,
        recorded: Callable[[], Mapping[int, Recorded]] = dict,
        files: Iterable[Blob] = (),
        asked: Callable[[int], Mapping[str, Blob]] = lambda _: {},
    ) -> None:
        self._recorded = recorded
        self._asked = asked
        self._blobs: dict[str, list[Blob]] = {}
        """By hash: several hosts may each have written one."""
        for blob in files:
            path = PurePosixPath(blob.name)
            if is_source(path):
                self._blobs.setdefault(path.stem, []).append(blob)
        self._texts: dict[str, SourceText | None] = {}
        """By hash."""
        self._kept = 0
        """Characters of them."""
        self._wrong: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """On texts that were asked for and could not be used."""
        return tuple(self._wrong)

    def text_of(self, rank: int, path: str) -> SourceText | None:
        """Return the text that a rank ran under a path; None if that is not known."""
        recorded = self._recorded()
        sha256 = recorded.get(rank, {}).get(path)
        if sha256 is not None:
            return self._text(sha256, path)
        told = {known[path] for known in recorded.values() if path in known}
        found = self._text(told.pop(), path) if len(told) == 1 else None
        return found and replace(found, is_borrowed=True)

    def skewed(self) -> dict[str, dict[str, list[int]]]:
        """Return by path the ranks of each text, for the paths under which ranks ran several."""
        found: dict[str, dict[str, list[int]]] = {}
        for rank, known in sorted(self._recorded().items()):
            for path, sha256 in known.items():
                found.setdefault(path, {}).setdefault(sha256, []).append(rank)
        return {path: texts for path, texts in sorted(found.items()) if len(texts) > 1}

    def _text(self, sha256: str, path: str) -> SourceText | None:
        if sha256 in self._texts:
            return self._texts[sha256]
        texts = map(source_text.decode, self._found(sha256, path))
        text = next((text for text in texts if text is not None), None)
        found = None if text is None else SourceText(text, sha256)
        size = 0 if found is None else len(found.text)
        if self._kept + size > _MOST_KEPT:
            self._texts, self._kept = {}, 0
        self._texts[sha256] = found
        self._kept += size
        return found

    def _found(self, sha256: str, path: str) -> Iterator[bytes]:
        """The bytes of this hash: in the log, from ranks, under the path on this machine."""
        for blob in self._blobs.get(sha256, ()):
            yield from self._checked(blob, sha256)
        for rank, known in self._recorded().items():
            if sha256 in known.values() and (asked := self._asked(rank).get(sha256)) is not None:
                yield from self._checked(asked, sha256)
        data = source_text.read(path) if path.endswith(".py") else None
        if data is not None and hashlib.sha256(data).hexdigest() == sha256:
            yield data

    def _checked(self, blob: Blob, sha256: str) -> Iterator[bytes]:
        if blob.size > source_text.MOST_BYTES:
            self._wrong.append(f"{blob.name} is too large for a source file, and was not read")
            return
        try:
            data = blob.read(0, blob.size)
        except LogError as problem:
            self._wrong.append(str(problem))
            return
        if hashlib.sha256(data).hexdigest() != sha256:
            self._wrong.append(f"{blob.name} is not the text that was recorded, and was not used")
            return
        yield data


def is_hash(text: str) -> bool:
    """Whether a text is a hash as ranks record it."""
    return SOURCE_FILE.fullmatch(f"{text}.py") is not None
