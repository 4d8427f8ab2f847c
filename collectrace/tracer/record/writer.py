"""One rank's file: lines are appended, segments rotate, and nothing raises.

One ``write`` to an O_APPEND descriptor per line: when it returns the line is in the kernel, and
nothing that happens to this process afterwards, C++ ``terminate`` and SIGKILL included, loses it.

While the run's id is not known the file is *provisional*; :meth:`Writer.move` then takes its lines
along to the run's folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from collectrace import file_modes
from collectrace.chain import CHECKPOINT_EVERY
from collectrace.tracer.guard import is_users

log = logging.getLogger("collectrace")

_SEGMENTS: Final = 8
"""Into how many segments ``max_bytes`` is divided; one of them is the first, which stays."""

_LARGEST_SEGMENT: Final = 64 << 20
"""Bytes of a segment, however large ``max_bytes`` is."""

_HEAD_SHARE: Final = 4
"""Bytes of a segment for each byte of the lines at its head, at least."""

_OPEN_ATTEMPTS: Final = 20
"""How often a file is tried to be opened while other ranks keep removing its folder."""

_RETRY_AFTER: Final = 200_000_000
"""ns between two attempts while writing fails: a full disk must not slow training down."""

_LOWEST: Final = (200, 3)
"""From which number on a descriptor of ours is looked for, in this order. A program that closes a
number twice closes a low one. Those before 3 are its input, output and error: where it has closed
one, whatever it prints would go to our file, and what it opens instead would get our lines."""

_DISK_FULL: Final = (errno.ENOSPC, "no space left on device")

Preamble = Callable[[int], bytes]
"""The lines at the head of a segment, given its ordinal."""


class Elsewhere(Protocol):
    """A folder that files are written to in place of the log folder, and moved from."""

    folder: Path
    """Stands for the log folder."""

    def home(self, path: Path) -> Path:
        """Return where a file or folder below it is moved to."""


class Writer:
    """Appends lines to one rank's segments.

    ``path`` is that of the first segment, ``max_bytes`` the size of all together, ``preamble``
    makes the first lines of each. Every method may be called at any time and none raises, but for
    what a signal handler of the program raised meanwhile: what could not be written is counted in
    ``dropped``, and writing is tried again later.
    """

    # Read by offset in _native.c.
    __slots__ = ("__dict__", "_full", "_size", "fd", "next_checkpoint", "total")

    def __init__(
        self, path: Path, max_bytes: int, preamble: Preamble, spool: Elsewhere | None = None
    ) -> None:
        self.path = path
        self.spool = spool
        """Where the path lies, if not in the log folder."""
        self._next_spool: Elsewhere | None = None
        """Where the next segment is to lie, see :meth:`leave`."""
        self.fd = -1
        """Of the segment being written; -1: it is not open, see :meth:`recover`."""
        self.inode: int | None = None
        """Number of the segment that was opened last, on its file system."""
        self.dropped = 0
        """Lines lost."""
        self.rotated = 0
        """Segments deleted."""
        self.total = 0
        """Bytes written."""
        self.next_checkpoint = CHECKPOINT_EVERY
        """Value of ``total`` from which on a checkpoint is due; set by who writes one."""
        self._preamble = preamble
        self._max_bytes = max_bytes
        self.segment_bytes = min(_LARGEST_SEGMENT, max(CHECKPOINT_EVERY, max_bytes // _SEGMENTS))
        """Size from which on a segment is ended, unless most of it is the lines at its head."""
        self._full = self.segment_bytes
        """Size from which on the segment being written is ended."""
        self._segment = 0
        """Ordinal of the segment being written."""
        self._current = path
        self._size = 0
        """Its bytes."""
        self._kept: list[tuple[Path, int]] = []
        """Earlier segments that still exist, and their bytes."""
        self._torn = False
        """The last line is incomplete: the next one must begin with a newline."""
        self._retry_at = 0
        """When to try again after a failure, ns; 0: there was none, or at once."""
        self._warned = False
        self._closed = False
        self._provisional: Path | None = None
        """The provisional file, until its lines are in another."""
        self._provisional_lines = b""

    @property
    def current(self) -> Path:
        """The segment being written."""
        return self._current

    @property
    def home(self) -> Path:
        """The folder that its lines come to lie in."""
        folder = self.path.parent
        return folder if self.spool is None else self.spool.home(folder)

    @property
    def folder(self) -> Path | None:
        """The same; None: nothing could be written so far."""
        return self.home if self._size or self._kept else None

    def leave(self, spool: Elsewhere) -> None:
        """Go on in a spool with the next line. Needs no lock: a write may hang while it is held."""
        self._next_spool = spool
        self._full = 0

    def write(self, line: bytes) -> bool:
        """Append a line, its newline included; whether it is in the file."""
        if self.fd < 0 and not self.recover():
            self.dropped += 1
            return False
        try:
            written = os.write(self.fd, line)
        except OSError as problem:
            if is_users(problem):
                raise  # a TimeoutError, say, that interrupted the write
            return self._fail(problem)
        self.total += written
        self._size += written
        if written == len(line) and self._size < self._full:
            return True
        return self.at_end(is_whole=written == len(line))

    def at_end(self, *, is_whole: bool) -> bool:
        """Go on after a line at which the segment ends; whether the line is whole."""
        if not is_whole:
            # A disk that fills up takes the beginning of a line.
            self._torn = True
            return self._fail(OSError(*_DISK_FULL))
        self._rotate()
        return True

    def move(self, path: Path) -> None:
        """Go on in another file, which begins with the lines of the provisional one.

        The header is written anew by the preamble: only now it is known which run and rank this
        is.
        """
        self._provisional = old = self._current
        try:
            kept = old.read_bytes().partition(b"\n")[2]
        except OSError:
            kept = b""
        self._provisional_lines = kept[: kept.rfind(b"\n") + 1]
        self._close_descriptor()
        self.path = self._current = path
        self._size, self._torn = 0, False
        closed, self._closed = self._closed, False
        self.recover()
        if closed:  # the file had its last line, and has it again
            self.close()

    def check(self) -> None:
        """Start the file again if it was deleted, and open it again if writing to it failed."""
        if self._closed:
            return
        if self.fd >= 0:
            gone = False
            try:
                status = os.fstat(self.fd)
                if status.st_ino != self.inode:
                    # The program has closed it, and the number is another file's.
                    self.dropped += 1
                    self.fd = -1
                elif status.st_nlink == 0:
                    self.dropped += _lines(self.fd)
                    gone = True
            except OSError:
                gone = True
            if gone:
                there = [kept for kept in self._kept if kept[0].exists()]
                self.rotated += len(self._kept) - len(there)
                self._kept = there
                self._close_descriptor()
                self._size = 0
                self._warn("its file was deleted")
        if self.fd < 0 and self.dropped:
            self._retry_at = 0
            self.recover()

    def finish(self, line: bytes) -> None:
        """Append the last line, and write no more: not even the head of another segment."""
        self.segment_bytes = self._full = sys.maxsize
        self.write(line)
        self.close()

    def close(self) -> None:
        """Write no more."""
        self._close_descriptor()
        self._closed = True

    def _fail(self, problem: OSError) -> bool:
        self.dropped += 1
        if problem.errno == errno.EBADF:
            self.fd = -1  # the program has closed it, and the number may be another file's by now
        self._close_descriptor()
        self._put_off(problem)
        return False

    def _warn(self, why: str) -> None:
        if self._warned:
            return
        self._warned = True
        then = (
            "Records are lost, and counted, until it can be written again; the job goes on."
            if self.total
            else "Nothing is recorded; set COLLECTRACE_LOG_DIR to a folder that can be written to."
        )
        log.warning("collectrace: cannot write %s: %s. %s", self._current, why, then)

    def recover(self) -> bool:
        """Open the segment and write its first lines, if an attempt is due; whether it is open."""
        if self._closed:
            return False
        if self._next_spool is not None:
            self._enter(self._next_spool)
        elif self._retry_at and time.monotonic_ns() < self._retry_at:
            return False
        try:
            fd = _open(self._current)
        except OSError as problem:
            self._put_off(problem)
            return False
        try:
            status = os.fstat(fd)
            self.inode = status.st_ino
            head = b"\n" if self._torn and status.st_size else b""
            # After a loss the preamble's checkpoint says how much, and where the streams stand.
            head += self._preamble(self._segment) + self._provisional_lines
            if os.write(fd, head) != len(head):
                raise OSError(*_DISK_FULL)  # noqa: TRY301 - same way out
        except OSError as problem:
            os.close(fd)
            self._torn = True
            self._put_off(problem)
            return False
        self.fd = fd
        self._torn = False
        self._retry_at = 0
        self.total += len(head)
        self._size += len(head)
        self._full = max(self.segment_bytes, _HEAD_SHARE * len(head))
        if self._provisional is not None:
            _remove(self._provisional)
            self._provisional, self._provisional_lines = None, b""
        return True

    def _enter(self, spool: Elsewhere) -> None:
        """Have the next segment in a spool. What was written before stays: nothing touches it."""
        self._next_spool = None
        if self._size:
            self._segment += 1
        self.spool, self.path = spool, spool.folder / self.path.parent.name / self.path.name
        self._current = self._named(self._segment)
        self._size, self._kept, self._torn = 0, [], False

    def _named(self, segment: int) -> Path:
        if not segment:
            return self.path
        return self.path.with_name(f"{self.path.stem}.{segment:04d}.jsonl")

    def _put_off(self, problem: OSError) -> None:
        self._retry_at = time.monotonic_ns() + _RETRY_AFTER
        self._warn(problem.strerror or str(problem))

    def _rotate(self) -> None:
        self._kept.append((self._current, self._size))
        self._close_descriptor()
        self._segment += 1
        self._size = 0
        self._current = self._named(self._segment)
        while len(self._kept) > 1 and self._bytes_kept() + self._full > self._max_bytes:
            victim, _ = self._kept.pop(1)
            try:
                victim.unlink(missing_ok=True)
            except OSError:
                break
            self.rotated += 1
        self.recover()

    def _bytes_kept(self) -> int:
        return sum(size for _, size in self._kept)

    def _close_descriptor(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            try:
                os.close(fd)
            except OSError:
                return


def _lines(fd: int) -> int:
    """Lines in an open file, whatever its name is now."""
    count = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        count += chunk.count(b"\n")
        offset += len(chunk)
    return count


def _open(path: Path) -> int:
    for _ in range(_OPEN_ATTEMPTS):
        # A rank that has left the folder of the provisional files removes it if it is empty.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            file_modes.make_folder(path.parent)
            return open_to_append(path)
    return open_to_append(path)


def open_to_append(path: Path) -> int:
    """Return a descriptor of a file, which is made if need be, out of the program's way."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(path, flags, file_modes.of_files())
    for lowest in _LOWEST:
        if fd >= lowest:
            return fd
        with contextlib.suppress(OSError):  # there may be too few of them
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
            os.close(fd)
            return moved
    os.close(fd)
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _remove(provisional: Path) -> None:
    try:
        provisional.unlink(missing_ok=True)
        provisional.parent.rmdir()
    except OSError:
        return  # other ranks' files are in the folder
