"""List the files of processes in a folder of logs, before they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from collectrace import exceptions
from collectrace.align.reading import spooled
from collectrace.align.reading.segments import Pages, Segments
from collectrace.align.reading.source import Folder
from collectrace.log_folder import PENDING, RANK_FILE, Blob
from collectrace.records import Alive, Exit, Header, Stall, readable

MAX_RANKS: Final = 1_000_000
"""A higher number is damage, not a rank."""

_BESIDE: Final = re.compile(r"(rank\d{1,9})\.(?:(stacks|ends)\.txt|(flight)\.(?:json|pickle|pkl))")
_PENDING_FILE: Final = re.compile(r"(.+-\d+?)(?:\.(\d{1,9}))?\.jsonl")

_HEAD: Final = 8192
_LARGE_HEAD: Final = 1 << 20
"""Bytes searched for a header: the first attempt, and the second."""


def is_rank(number: int | None) -> bool:
    """Return whether a number can be a rank."""
    return number is not None and 0 <= number < MAX_RANKS


@dataclass(slots=True)
class File:
    """One process's log, before it is read."""

    segments: Segments
    folder: str
    pending: bool
    rank: int | None
    beside: dict[str, Blob] = field(default_factory=dict)
    """``stacks`` and ``ends``, from signal handlers; ``flight``, torch's own dump."""
    header: Header | None = None
    peeked: bool = False

    def peek(self) -> Header | None:
        """Return its header; reads it on the first call."""
        if not self.peeked:
            self.peeked = True
            self.header = _header(self.segments)
            if self.header is not None and is_rank(self.header.rank):
                self.rank = self.header.rank
            if self.header is not None and not self.pending:
                self._add_rest(self.header)
        return self.header

    def _add_rest(self, header: Header) -> None:
        """Add the records that are still in the spool."""
        segments = self.segments
        if header.spool is None and len(segments.starts) > 1:
            # A spool may have taken over.
            header = _header(segments, segments.starts[-1]) or header
        parts = spooled.rest(segments.parts, header)
        if parts is not None:
            self.segments = Segments(parts, segments.page)

    @property
    def wall(self) -> int:
        """When it began, ns since 1970; -1 if that is not known."""
        header = self.peek()
        return header.wall if header is not None else -1


def list_files(folder: Folder, page: int) -> list[File]:
    """Return every process's log below a folder, each with all its segments."""
    found: dict[tuple[str, str], list[tuple[int, Blob]]] = {}
    beside: dict[tuple[str, str], dict[str, Blob]] = {}
    for blob in folder.files:
        where, name = place(folder, blob)
        is_pending = PurePosixPath(where).name == PENDING
        left = _BESIDE.fullmatch(name)
        if left is not None:
            of = beside.setdefault((where, left[1].removeprefix("rank")), {})
            of[left[2] or left[3]] = blob
        match = (_PENDING_FILE if is_pending else RANK_FILE).fullmatch(name)
        if match is not None:
            found.setdefault((where, match[1]), []).append((int(match[2] or 0), blob))
    files, pages = [], Pages()
    for (where, stem), parts in sorted(found.items()):
        pending = PurePosixPath(where).name == PENDING
        segments = Segments(sorted(parts, key=lambda part: part[0]), page, pages)
        rank = None if pending or not is_rank(int(stem)) else int(stem)
        files.append(File(segments, where, pending, rank, beside.get((where, stem), {})))
    return files


def place(folder: Folder, blob: Blob) -> tuple[str, str]:
    """Return the folder of a file, and its name there."""
    path = PurePosixPath(blob.name)
    return str(path.parent) if path.parent.name else folder.name, path.name


def waited(file: File) -> bool:
    """Return whether a process last waited in a call, or ended because of its peers."""
    start = max(0, file.segments.size - _HEAD)
    waits = False
    for line in file.segments.read(start, file.segments.size).splitlines():
        record = readable(line)
        if isinstance(record, Exit):
            return exceptions.blames_peers(record.error or "", record.message or "")
        if isinstance(record, Alive | Stall):
            waits = any(activity.what in _WAITS for activity in record.in_)
    return waits


_WAITS: Final = ("call", "wait", "backward")
"""Values of ``Activity.what`` that may wait for other ranks of the group."""


def _header(segments: Segments, start: int = 0) -> Header | None:
    for size in (_HEAD, _LARGE_HEAD):
        _, lines, end = segments.window(start, start + size)
        records = map(readable, lines)
        found = next((record for record in records if isinstance(record, Header)), None)
        if found is not None or end >= segments.size:
            return found
    return None
