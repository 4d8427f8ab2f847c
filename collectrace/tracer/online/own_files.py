"""Read this rank's files: their names and bytes, and the digests at an earlier call."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from collectrace import exchange
from collectrace.exchange import MOST_FILES, Left
from collectrace.log_folder import SOURCES

_PAGE: Final = 80 << 10
"""Bytes that are read at once. A checkpoint, which names every stream, is written every 64 KiB."""

_HEAD: Final = 48 << 10
_TAIL: Final = 112 << 10
"""Bytes at each end that a reader needs. At the end, these are 32 KiB, and up to 96 KiB back to a
checkpoint, with complete pages and lines."""

_TEXT: Final = 32 << 10
"""Bytes of a file of stacks that is left behind; a larger file is not."""

_MOST_LOOKS: Final = 40
"""Reads to find one call: halving a segment takes a dozen."""


class OwnFiles:
    """The files of one rank. ``path`` is that of its first segment.

    ``texts`` returns the hashes of the source files that this rank has recorded.
    """

    def __init__(self, path: Path, texts: Callable[[], Iterable[str]] = tuple) -> None:
        self._folder = path.parent
        self._texts = texts
        stem = re.escape(path.stem)
        self._segments = re.compile(rf"{stem}(?:\.(\d+))?\.jsonl")
        self._all = re.compile(rf"{stem}(?:\.\d+)?\.(?:jsonl|stacks\.txt|ends\.txt)")

    def list(self) -> list[tuple[str, int]]:
        """Return names and sizes (bytes) of all files that exist now, sorted by name."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # rotated away
                    if self._all.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        found.append((entry.name, entry.stat().st_size))
        return sorted(found)

    def texts(self) -> tuple[tuple[str, int], ...]:
        """Return hashes and sizes (bytes) of the recorded sources that were written already."""
        found = []
        for sha256 in sorted(set(self._texts())):
            with contextlib.suppress(OSError):  # not written yet
                found.append((sha256, (self._folder / SOURCES / f"{sha256}.py").stat().st_size))
        return tuple(found)

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return bytes of a file: fewer if it is shorter, none if it was removed."""
        try:
            with (self._folder / name).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), max(0, stop - start), start)
        except OSError:
            return b""

    def left(self, run: str, most: int) -> bytes:
        """Return what this rank leaves with the store at its end, see :func:`exchange.pack_left`.

        That is the whole record if it has at most ``most`` bytes. Otherwise it is what every reader
        needs: its beginning, the beginning after each removed segment, and the end back to a
        checkpoint.
        """
        files = self.list()
        records = [n for n, (name, _) in enumerate(files) if self._segments.fullmatch(name)]
        records.sort(key=lambda n: self._ordinal(files[n][0]))
        texts = [n for n, (_, size) in enumerate(files) if n not in records and size <= _TEXT]
        chosen = [*records, *texts][-MOST_FILES:]
        parts = [(n, 0, files[n][1]) for n in texts if n in chosen]
        if sum(files[n][1] for n in records) <= most:
            parts += [(n, 0, files[n][1]) for n in records if n in chosen]
        else:
            parts += _parts_at_ends([(n, self._ordinal(files[n][0]), files[n][1]) for n in records])
        parts = [part for part in parts if part[0] in chosen][:MOST_FILES]
        data = [self.read(files[n][0], start, stop) for n, start, stop in parts]
        left = Left(
            run, tuple(files[n][0] for n in chosen), tuple(files[n][1] for n in chosen),
            tuple(chosen.index(n) for n, _, _ in parts),
            tuple(start for _, start, _ in parts), tuple(map(len, data)),
        )  # fmt: skip
        return exchange.pack_left(left, data)

    def digests(self, group: str, device: str, seq: int) -> tuple[int, int] | None:
        """Return the prefix digests of a stream at one of its calls, as in the call's line.

        None: a short search of the latest two segments has not found the call.
        """
        segments = [(name, size) for name, size in self.list() if self._segments.fullmatch(name)]
        segments.sort(key=lambda one: self._ordinal(one[0]))
        for name, size in reversed(segments[-2:]):
            found = self._find(name, size, group, device, seq)
            if found is not None:
                return found
        return None

    def _ordinal(self, name: str) -> int:
        found = self._segments.fullmatch(name)
        return int(found[1] or 0) if found is not None else 0

    def _find(
        self, name: str, size: int, group: str, device: str, seq: int
    ) -> tuple[int, int] | None:
        low, high = 0, size  # the line begins at or after low, and before high
        for _ in range(_MOST_LOOKS):
            is_last = high - low <= _PAGE
            start = low if is_last else (low + high) // 2
            page = self.read(name, start, start + 2 * _PAGE if is_last else start + _PAGE)
            found = _positions(page, start, group, device)
            exact = [where for where in found if where[1] == seq and where[2] is not None]
            if exact:
                return exact[-1][2]  # a call that was taken back has two lines
            if is_last or not found:
                return None
            if found[0][1] >= seq:
                high = found[0][0]
            else:
                low = max(low + 1, found[-1][0])
        return None


def _parts_at_ends(segments: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the parts of segments that a reader needs, as file number, start and stop.

    A segment is given by its file number, ordinal and size.
    """
    parts, before, left = list[tuple[int, int, int]](), None, _TAIL
    for n, ordinal, size in segments:
        if before is None or ordinal != before + 1:
            parts.append((n, 0, min(size, _HEAD)))
        before = ordinal
    for n, _, size in reversed(segments):
        parts.append((n, max(0, size - left), size))
        left -= size
        if left <= 0:
            break
    return parts


def _positions(
    page: bytes, start: int, group: str, device: str
) -> list[tuple[int, int, tuple[int, int] | None]]:
    """Return positions of a stream: offset of the line, sequence number, digests if a call's."""
    found: list[tuple[int, int, tuple[int, int] | None]] = []
    wanted = json.dumps(group).encode(), json.dumps(device).encode()
    offset = start
    for line in page.splitlines(keepends=True):
        here, offset = offset, offset + len(line)
        is_call = line.startswith(b'{"kind":"call"')
        if not line.endswith(b"\n") or not (is_call or line.startswith(b'{"kind":"checkpoint"')):
            continue
        if wanted[0] not in line or wanted[1] not in line:
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            record: dict[str, Any] = json.loads(line)
            if is_call:
                if (record["group"], record["device"]) == (group, device) and "digest" in record:
                    digests = int(record["digest"]), int(record["program"])
                    found.append((here, int(record["seq"]), digests))
            else:
                found += [
                    (here, int(row[2]), None)
                    for row in record["streams"]
                    if (row[0], row[1]) == (group, device)
                ]
    return found
