"""Records of ranks that are not asked: ranks that have ended, and ranks in the same state.

A rank that ends leaves its record with the store. If ranks have the same calls and state, one is
read for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import orjson

from collectrace import exchange
from collectrace.log_folder import Blob

_LONGEST_HEADER: Final = 64 << 10
"""Bytes of a record's first line."""

_OF_ALL: Final = ("t", "format", "run", "world_size", "wall", "heartbeat", "stall_after")
"""Fields of a header that are the same on all ranks, or nearly: they all began together."""

_CHECKPOINT: Final = b'\n{"kind":"checkpoint"'

NAME: Final = re.compile(r"rank(\d{1,9})(\+\d+)?(\.\d+)?\.(jsonl|stacks\.txt|ends\.txt)")


@dataclass(frozen=True, slots=True)
class LeftBlob:
    """A file that a rank has left when it ended, or an end of one."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """See :class:`collectrace.log_folder.Blob`."""
        return len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.log_folder.Blob`."""
        return self.data[start:stop]


@dataclass(slots=True)
class AlikeBlob:
    """The record of a rank in the same state as another, which was read instead."""

    name: str
    rank: int
    other: Blob
    _begins: bytes = b""
    """Its first line, which names its rank."""
    _instead_of: int = 0
    """Bytes of the other's first line."""

    def __post_init__(self) -> None:
        line = self.other.read(0, min(self.other.size, _LONGEST_HEADER)).partition(b"\n")[0]
        self._instead_of = len(line)
        header = orjson.loads(line)
        if not isinstance(header, dict):
            raise TypeError("a record that begins with no header")
        # Its host and other fields of its header are not known.
        known = {name: header[name] for name in _OF_ALL if name in header}
        self._begins = orjson.dumps({"kind": "header", **known, "rank": self.rank})

    @property
    def size(self) -> int:
        """See :class:`collectrace.log_folder.Blob`."""
        return self.other.size + len(self._begins) - self._instead_of

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`collectrace.log_folder.Blob`."""
        shift = self._instead_of - len(self._begins)
        first = self._begins[start:stop]
        return first + self.other.read(
            max(start, len(self._begins)) + shift, max(stop, len(self._begins)) + shift
        )


def alike_blobs(rank: int, blobs: Sequence[Blob], run: str) -> Iterator[AlikeBlob]:
    """Yield the record of a rank, derived from that of another."""
    for blob in blobs:
        match = NAME.fullmatch(PurePosixPath(blob.name).name)
        if match is not None and match[4] == "jsonl":
            name = f"{run}/rank{rank:05d}{match[2] or ''}{match[3] or ''}.jsonl"
            with suppress(ValueError, TypeError):
                yield AlikeBlob(name, rank, blob)


def left_blobs(run: str, rank: int, value: bytes) -> list[LeftBlob]:
    """Return the files that a rank has left; empty if it left them to another run.

    A rank leaves both ends of a long record. They become segments with others missing between, like
    a record with its middle rotated away.

    Raises:
        ValueError: it is damaged.

    """
    left, data = exchange.unpack_left(value)
    if left.run != run:
        return []
    names = [NAME.fullmatch(name) for name in left.names]
    parts = dict[int, list[tuple[int, bytes]]]()
    for file, start, part in sorted(zip(left.files, left.starts, data, strict=True)):
        parts.setdefault(file, []).append((start, part))
    found, records = list[LeftBlob](), list[tuple[int, str, int]]()
    for n, match in enumerate(names):
        if match is None or int(match[1]) != rank or n not in parts:
            continue
        if match[4] == "jsonl":
            records.append((int((match[3] or ".0")[1:]), match[2] or "", n))
        else:
            found.append(LeftBlob(f"{run}/{left.names[n]}", parts[n][0][1]))
    to = 0
    before: tuple[int, bool] | None = None
    """The file of the last segment, and whether the segment extends to the end of that."""
    for ordinal, twin, n in sorted(records):
        for start, part in _merged(parts[n]):
            follows = before == (ordinal - 1, True) and not start
            to = ordinal if before is None else to + (1 if follows else 2)
            ends = start + len(part) >= left.sizes[n]
            before = ordinal, ends
            name = f"{run}/rank{rank:05d}{twin}{f'.{to:04d}' if to else ''}.jsonl"
            found.append(LeftBlob(name, _whole_lines(part, begins=not start, ends=ends)))
    return found


def _merged(parts: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return parts of one file, in order of their starts; touching parts are joined."""
    found = list[tuple[int, bytes]]()
    for start, part in parts:
        if found and start <= found[-1][0] + len(found[-1][1]):
            at, known = found[-1]
            found[-1] = at, known + part[at + len(known) - start :]
        else:
            found.append((start, part))
    return found


def _whole_lines(part: bytes, *, begins: bool, ends: bool) -> bytes:
    """Return a part of a record without cut lines; the end part from a checkpoint on."""
    if not begins:
        first = part.find(_CHECKPOINT)
        part = part[first + 1 :] if first >= 0 else part[part.find(b"\n") + 1 :]
    return part if ends else part[: part.rfind(b"\n") + 1]


def is_of(rank: int, name: str) -> bool:
    """Return whether a name is that of one of a rank's own files."""
    match = NAME.fullmatch(name)
    return match is not None and int(match[1]) == rank
