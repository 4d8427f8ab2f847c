"""The rest of rank files in a spool of this machine, see ``collectrace.log_folder``.

A log names its spool, and logs are not trusted. So a file of the spool counts only if it is a
regular file of this user in a folder for spools. It must continue the bytes that were moved.
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from collectrace.align.reading.rank_log import RankLog
from collectrace.align.reading.source import LocalBlob
from collectrace.errors import LogError
from collectrace.log_folder import SPOOLS, Blob
from collectrace.records import Header

_COMPARED: Final = 4096
"""Bytes at the end of the moved file that must be the same in the spool."""

_BEHIND: Final = 3
"""Heartbeats."""

_SPOOL: Final = re.compile(rf"/{SPOOLS}-\d+/[^/]+/[^/]+/[^/]+/(rank\d+)(\.\d+)?\.jsonl$")


def rest(parts: Sequence[tuple[int, Blob]], header: Header) -> list[tuple[int, Blob]] | None:
    """Return the segments of a rank, with longer ones from the spool; None if it has no more.

    ``parts``: the segments that were moved, by ordinal.
    """
    if header.spool is None or header.host != platform.node():
        return None
    found = _SPOOL.search(header.spool)
    if found is None:
        return None
    moved = dict(parts)
    longer = {
        ordinal: blob
        for ordinal, blob in _segments(Path(header.spool).parent, found[1])
        if _goes_on(blob, moved.get(ordinal))
    }
    return sorted((moved | longer).items()) if longer else None


def notes(logs: Iterable[RankLog]) -> list[str]:
    """Return a note on each rank with a file that may lack its end, and where the rest is."""
    found = list(logs)
    latest = max((_end(log) for log in found), default=0)
    return [
        f"the last records of rank {log.rank} may lie at {log.header.host}:{log.header.spool}: its "
        "file is moved from there, and ends before those of other ranks"
        for log in found
        if log.header.spool is not None and log.exit is None
        if latest - _end(log) > _BEHIND * log.header.heartbeat * 1e9
    ]


def _end(log: RankLog) -> int:
    return log.header.wall - log.header.t + log.last_t


def _segments(folder: Path, stem: str) -> Iterator[tuple[int, LocalBlob]]:
    name = re.compile(rf"{stem}(?:\.(\d+))?\.jsonl")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match, status = name.fullmatch(entry.name), entry.stat(follow_symlinks=False)
                if match and stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                    blob = LocalBlob(entry.name, status.st_size, Path(entry.path))
                    yield int(match[1] or 0), blob
    except OSError:
        return


def _goes_on(blob: LocalBlob, moved: Blob | None) -> bool:
    if moved is None:
        return blob.size > 0
    if blob.size <= moved.size:
        return False
    start = max(0, moved.size - _COMPARED)
    try:
        ends = [one.read(start, moved.size) for one in (blob, moved)]
    except LogError:
        return False
    if not start:  # the first line contains the number of the file
        ends = [end.partition(b"\n")[2] for end in ends]
    return ends[0] == ends[1]
