"""The program's source files: each is read once, and its text is written once per run.

Only the watchdog does this, never a call.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from collectrace import file_modes, log_folder, source_text

_MOST_HELD: Final = 32 << 20
"""Bytes of texts kept until they are written. Beyond that, files are read a second time."""

RESERVE: Final = 16 << 20
"""Bytes that must stay free on the file system after a text: the record has priority."""

_NO_FILES: Final = frozenset({"<stdin>", "<string>"})
"""File names that many different texts share."""


class ReadFile(NamedTuple):
    """The content of a file, or of a notebook's cell."""

    data: bytes
    sha256: str
    text: str | None
    """None: the data is invalid in its declared encoding."""


def read(path: str) -> ReadFile | None:
    """Return the source with this file name; None: there is no such file, or it is too large."""
    if path in _NO_FILES:
        return None
    known, is_file = _remembered(path)
    if known is None or is_file:
        data = source_text.read(path)
        if data is not None:
            return ReadFile(data, hashlib.sha256(data).hexdigest(), source_text.decode(data))
    if known is None:
        return None
    data = known.encode(errors="replace")
    return ReadFile(data, hashlib.sha256(data).hexdigest(), known)


def _remembered(path: str) -> tuple[str | None, bool]:
    """Return the text that linecache has cached for a name, and whether it is a file's.

    It knows the cells of a notebook, which have no files. Its functions are not called: they open
    any file of that name, and run loaders of the program.
    """
    entry = linecache.cache.get(path)
    if type(entry) is not tuple or len(entry) != 4:  # one that has not been read yet is shorter
        return None, False
    _, changed, lines, _ = entry
    if type(lines) is not list or not all(type(line) is str for line in lines):
        return None, False
    is_small = sum(map(len, lines)) <= source_text.MOST_BYTES
    return ("".join(lines) if is_small else None), changed is not None


@dataclass(slots=True)
class _Waiting:
    path: str
    data: bytes | None
    """None: it must be read again."""
    due: int
    """When this process writes it if it is still missing, ns."""


class Texts:
    """The texts that this process has read, and that the run's folder may lack.

    ``patience``: ns after which this process writes a text that no other has written.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.known: list[str] = []
        """Hashes of all texts that were added."""
        self._waiting: dict[str, _Waiting] = {}
        """By hash."""
        self._held = 0
        """Bytes of them that are kept."""

    def add(self, path: str, file: ReadFile, now: int) -> None:
        """Add a text that was read at ``now``, ns, unless it is known."""
        if file.sha256 in self.known:
            return
        self.known.append(file.sha256)
        is_held = self._held + len(file.data) <= _MOST_HELD
        data = file.data if is_held else None
        self._waiting[file.sha256] = _Waiting(path, data, now + self._patience)
        self._held += len(file.data) if is_held else 0

    def write(self, folder: Path, now: int, *, at_once: bool) -> None:
        """Write the texts that are due and missing; ``at_once``: also those that are not due.

        A text that cannot be written is tried again later. ``folder`` is the run's folder.
        """
        due = [sha for sha, one in self._waiting.copy().items() if at_once or one.due <= now]
        for sha in due:
            waiting = self._waiting[sha]
            try:
                _write_absent(folder / log_folder.SOURCES / f"{sha}.py", waiting)
            except OSError:
                waiting.due = now + self._patience
                continue
            del self._waiting[sha]
            self._held -= len(waiting.data or b"")


def _write_absent(path: Path, waiting: _Waiting) -> None:
    """Write a text atomically, unless the file exists or the source has changed.

    Raises:
        OSError: it cannot be written.

    """
    if path.exists():
        return
    data = waiting.data
    if data is None:
        again = read(waiting.path)
        if again is None or again.sha256 != path.stem:
            return  # it was changed meanwhile
        data = again.data
    _check_room(path.parents[1], len(data))
    file_modes.make_folder(path.parent)
    part = path.with_name(f".collectrace-{os.urandom(8).hex()}.part")
    try:
        with open(part, "xb", opener=file_modes.opener) as out:
            out.write(data)
        part.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _check_room(folder: Path, size: int) -> None:
    """Check that the reserve stays free on a folder's file system after ``size`` more bytes.

    Raises:
        OSError: there is too little space, or no such folder.

    """
    found = os.statvfs(folder)
    # Some network file systems do not know how large they are.
    if found.f_blocks and found.f_bavail * found.f_frsize < size + RESERVE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
