"""One rank's segments as a single sequence of bytes, read in pages or from end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from collectrace.align.reading.source import LocalBlob
from collectrace.errors import Unreadable
from collectrace.log_folder import Blob

PAGE: Final = 4096
"""Bytes of one lookup: a dozen calls."""

_CHUNK: Final = 1 << 20
"""Bytes of one read of a full pass."""

_CACHED_PAGES: Final = 4096
"""Cached pages of all files of a run together: 16 MiB."""

LONGEST_LINE: Final = 16 << 20
"""Bytes of a line. A longer one is damage, and so is the rest of its segment."""

_DAMAGE: Final = b"\0"
"""Replaces such a line: not a record."""


class Pages:
    """The page cache of some files: its size does not grow with their number."""

    def __init__(self) -> None:
        self.held: dict[tuple[Segments, int], bytes] = {}

    def make_room(self, count: int) -> bool:
        """Return whether pages were dropped to make room for so many more."""
        is_full = bool(self.held) and len(self.held) + count > _CACHED_PAGES
        if is_full:
            self.held.clear()
        return is_full


class Segments:
    """Segments in order, with a newline after each, so that a torn line ends where it tore.

    Offsets count from the beginning of the first segment. The size is fixed at the start: a live
    file may grow, and is read only up to it.
    """

    def __init__(
        self, segments: Sequence[tuple[int, Blob]], page: int = PAGE, pages: Pages | None = None
    ) -> None:
        self.ordinals = [ordinal for ordinal, _ in segments]
        self.blobs = [blob for _, blob in segments]
        self.page = page
        """Bytes of one lookup."""
        self._pages = pages or Pages()
        self.starts: list[int] = []
        """Offset of each segment."""
        size = 0
        for blob in self.blobs:
            self.starts.append(size)
            size += blob.size + 1
        self.size = size
        self.bytes_read = 0
        self.unreadable: dict[str, str] = {}
        """Segments that could not be read, and why: each counts as damage."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to read these files, without the cache."""
        return {**self.__dict__, "_pages": Pages()}

    @property
    def parts(self) -> list[tuple[int, Blob]]:
        """The segments, by ordinal."""
        return list(zip(self.ordinals, self.blobs, strict=True))

    @property
    def name(self) -> str:
        """The name of the first segment."""
        return self.blobs[0].name

    @property
    def names(self) -> list[str]:
        """The names of all segments."""
        return [blob.name for blob in self.blobs]

    @property
    def inode(self) -> int | None:
        """Number of the first file on its file system; None if it is not known."""
        return self.blobs[0].inode if isinstance(self.blobs[0], LocalBlob) else None

    @property
    def is_torn(self) -> bool:
        """Whether the last line is incomplete."""
        return self.read(self.size - 2, self.size - 1) not in (b"", b"\n")

    def continues(self, earlier: Segments) -> bool:
        """Return whether these are the same segments with more at their end."""
        known = len(earlier.ordinals)
        return (
            self.ordinals[:known] == earlier.ordinals
            and self.starts[:known] == earlier.starts
            and self.size >= earlier.size
        )

    def holes(self) -> list[int]:
        """Return offsets of the segments before which others were removed."""
        pairs = zip(self.ordinals, self.ordinals[1:], self.starts[1:], strict=False)
        return [start for before, after, start in pairs if after != before + 1]

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` .. ``stop - 1``, through the page cache."""
        start, stop = max(0, start), min(stop, self.size)
        if start >= stop:
            return b""
        first, last = start // self.page, (stop - 1) // self.page
        wanted = range(first, last + 1)
        held = self._pages.held
        missing = [n for n in wanted if (self, n) not in held]
        if missing:
            if self._pages.make_room(len(wanted)):
                missing = list(wanted)
            self._fetch(missing[0], missing[-1])
        whole = b"".join(held[self, n] for n in wanted)
        return whole[start - first * self.page : stop - first * self.page]

    def _fetch(self, first: int, last: int) -> None:
        begin = first * self.page
        data = self._raw(begin, min((last + 1) * self.page, self.size))
        for n in range(first, last + 1):
            self._pages.held[self, n] = data[n * self.page - begin : (n + 1) * self.page - begin]

    def _raw(self, start: int, stop: int) -> bytes:
        parts = []
        for base, blob in zip(self.starts, self.blobs, strict=True):
            low, high = max(start - base, 0), min(stop - base, blob.size)
            if low < high:
                try:
                    data = blob.read(low, high)
                except Unreadable as problem:
                    self.unreadable[blob.name] = problem.why
                    data = _DAMAGE * (high - low)
                self.bytes_read += len(data)
                # If a file shrank since it was listed, keep all later offsets.
                parts.append(data.ljust(high - low, b"\n"))
            if start - base <= blob.size < stop - base:
                parts.append(b"\n")
        return b"".join(parts)

    def blocks(self, start: int = 0, chunk: int = _CHUNK) -> Iterator[tuple[int, list[bytes]]]:
        """Yield all lines from ``start`` on, in chunks: the offset of the first line, the lines.

        ``start`` is the offset of a line, ``chunk`` a number of bytes. The page cache is not used.
        After a line of more than :data:`LONGEST_LINE` the rest of its segment is skipped.
        """
        offset, rest = start, []
        while start < self.size:
            data = self._raw(start, min(start + chunk, self.size))
            start += len(data)
            rest.append(data)
            if b"\n" not in data:
                # A line longer than a chunk is joined once, at its end.
                if start - offset > LONGEST_LINE:
                    yield offset, [_DAMAGE]
                    start = min((at for at in self.starts if at >= start), default=self.size)
                    offset, rest = start, []
                continue
            lines = b"".join(rest).split(b"\n")
            rest = [lines.pop()]
            yield offset, lines
            offset = start - len(rest[0])

    def numbered(self, offset: int) -> tuple[str, int]:
        """Return the file in which a line begins, and the line's number there, from 1."""
        n = max(n for n, start in enumerate(self.starts) if start <= offset)
        begin, lines = self.starts[n], 1
        while begin < offset:
            data = self._raw(begin, min(begin + _CHUNK, offset))
            begin, lines = begin + len(data), lines + data.count(b"\n")
        return self.blobs[n].name, lines

    def window(self, start: int, stop: int) -> tuple[int, list[bytes], int]:
        """Return the complete lines within a stretch: offset of the first, the lines, their end.

        A stretch that begins at 0 or at a segment begins with a complete line; elsewhere the line
        that contains its start is skipped.
        """
        start, stop = max(0, start), min(stop, self.size)
        data = self.read(max(0, start - 1), stop)
        if start > 0:
            cut = data.find(b"\n") + 1
            if not cut:
                return start, [], start
            data, start = data[cut:], start - 1 + cut
        whole, newline, _ = data.rpartition(b"\n")
        if not newline:
            return start, [], start
        return start, whole.split(b"\n"), start + len(whole) + 1

    def last_line(self) -> int:
        """Return the offset of the last line; the very end if all lines are complete."""
        end, length = max(0, self.size - 1), self.page
        while True:
            start = max(0, end - length)
            at = self.read(start, end).rfind(b"\n")
            if at >= 0 or start == 0 or length > LONGEST_LINE:
                return start + at + 1
            length *= 4

    def line(self, offset: int) -> bytes:
        """Return the line that begins at an offset, without its newline."""
        length = self.page
        while True:
            data = self.read(offset, offset + length)
            end = data.find(b"\n")
            if end >= 0 or offset + length >= self.size or length > LONGEST_LINE:
                return data if end < 0 else data[:end]
            length *= 4
