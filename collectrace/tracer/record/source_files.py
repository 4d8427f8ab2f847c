"""The files of the program's text: each is read once, and its text written once per run.

All of it is the watchdog's work, never a call's.
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
"""Bytes of texts held until they are written; of more the files are read again."""

RESERVE: Final = 16 << 20
"""Bytes that a text must leave free on the file system: the record comes first."""

_NO_FILES: Final = frozenset({"<stdin>", "<string>"})
"""Names under which any number of texts are compiled."""


class ReadFile(NamedTuple):
    """A file, or the cell of a notebook, as it was read."""

    data: bytes
    sha256: str
    text: str | None
    """None: it is no text in the encoding that it names."""


def read(path: str) -> ReadFile | None:
    """Return what was compiled under a name; None if there is no such file, or it is too large."""
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
    """Return what linecache has read of a name already, and whether that was a file.

    The cells of a notebook are no files, but known to it. Its functions are not called: they
    open whatever bears the name, and run loaders of the program.
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
    """None: it is read again."""
    due: int
    """When it is to be written if it is still absent, ns."""


class Texts:
    """The texts that this process has read and that may be absent from the run's folder.

    ``patience``: ns after which this process writes a text that no other has written.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.known: list[str] = []
        """Hashes of all texts that were added."""
        self._waiting: dict[str, _Waiting] = {}
        """By hash."""
        self._held = 0
        """Bytes of them."""

    def add(self, path: str, file: ReadFile, now: int) -> None:
        """Take a text that was read now."""
        if file.sha256 in self.known:
            return
        self.known.append(file.sha256)
        is_held = self._held + len(file.data) <= _MOST_HELD
        data = file.data if is_held else None
        self._waiting[file.sha256] = _Waiting(path, data, now + self._patience)
        self._held += len(file.data) if is_held else 0

    def write(self, folder: Path, now: int, *, at_once: bool) -> None:
        """Write the texts that are due and absent; ``at_once``: those that are not due as well.

        A text that cannot be written is tried again later. ``folder`` is that of the run.
        """
        due = [sha for sha, one in self._waiting.items() if at_once or one.due <= now]
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
    """Write a text under its name, which it gets when it is whole.

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
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_modes.of_files())
    try:
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)
        part.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _check_room(folder: Path, size: int) -> None:
    """Check that the file system of a folder has the reserve free after so many bytes more.

    Raises:
        OSError: it has not, or there is no such folder.

    """
    found = os.statvfs(folder)
    # Some network file systems do not know how large they are.
    if found.f_blocks and found.f_bavail * found.f_frsize < size + RESERVE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
