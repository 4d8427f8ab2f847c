"""Write one rank's file: append lines, rotate segments, and never raise.

Each line is one ``write`` to an O_APPEND descriptor. When it returns, the line is in the kernel and
survives the process, even after C++ ``terminate`` or SIGKILL.

Until the run's id is known the file is *provisional*. Then :meth:`Writer.move` moves its lines to
the run's folder.
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
"""The number of segments in ``max_bytes``, including the first, which is never deleted."""

_LARGEST_SEGMENT: Final = 64 << 20
"""Bytes of a segment at most."""

_HEAD_SHARE: Final = 4
"""A segment is at least so many times as large as the lines at its head."""

_OPEN_ATTEMPTS: Final = 20
"""Attempts to open a file while other ranks keep removing its folder."""

_RETRY_AFTER: Final = 200_000_000
"""ns between two attempts while writing fails: a full disk must not slow down the training."""

_LOWEST: Final = (200, 3)
"""The lowest numbers for our descriptors, in the order of preference. A program that closes a
number twice usually closes a low one. Numbers below 3 are the standard streams. If the program has
closed one and we got its number, the program's output would go to our file."""

_DISK_FULL: Final = (errno.ENOSPC, "no space left on device")

Preamble = Callable[[int], bytes]
"""Returns the lines at the head of a segment, given its ordinal."""


class Elsewhere(Protocol):
    """A folder to which files are written first, and from which they are moved."""

    folder: Path
    """The folder that replaces the log folder."""

    def home(self, path: Path) -> Path:
        """Return the path to which a file or folder below it is moved."""


class Writer:
    """Appends lines to one rank's segments.

    ``path`` is that of the first segment, ``max_bytes`` the size of all together, ``preamble``
    makes the first lines of each. Every method may be called at any time. None raises, except for
    exceptions of the program's signal handlers. Lines that could not be written are counted in
    ``dropped``, and writing is tried again later.
    """

    # Read by offset in _native.c.
    __slots__ = ("__dict__", "_full", "_size", "fd", "next_checkpoint", "total")

    def __init__(
        self, path: Path, max_bytes: int, preamble: Preamble, spool: Elsewhere | None = None
    ) -> None:
        self.path = path
        self.spool = spool
        """The spool that contains the path; None: the log folder contains it."""
        self._next_spool: Elsewhere | None = None
        """The spool for the next segment, see :meth:`leave`."""
        self.fd = -1
        """Descriptor of the segment being written; -1: it is not open, see :meth:`recover`."""
        self.inode: int | None = None
        """Inode of the segment that was opened last."""
        self.dropped = 0
        """Lines lost."""
        self.rotated = 0
        """Segments deleted."""
        self.total = 0
        """Bytes written."""
        self.next_checkpoint = CHECKPOINT_EVERY
        """Value of ``total`` at which a checkpoint is due; the writer of a checkpoint sets it."""
        self._preamble = preamble
        self._max_bytes = max_bytes
        self.segment_bytes = min(_LARGEST_SEGMENT, max(CHECKPOINT_EVERY, max_bytes // _SEGMENTS))
        """Size at which a segment ends, unless the lines at its head are too large for that."""
        self._full = self.segment_bytes
        """Size at which the segment being written ends."""
        self._segment = 0
        """Ordinal of the segment being written."""
        self.current = path
        """The segment being written."""
        self._size = 0
        """Its bytes."""
        self._kept: list[tuple[Path, int]] = []
        """Earlier segments that still exist, and their bytes."""
        self._torn = False
        """Whether the last line is incomplete: the next one must begin with a newline."""
        self._retry_at = 0
        """When to try again after a failure, ns; 0: at once."""
        self._warned = False
        self._closed = False
        self._provisional: Path | None = None
        """The provisional file, until its lines are in the final one."""
        self._provisional_lines = b""

    @property
    def home(self) -> Path:
        """Return the folder in which its lines end up."""
        folder = self.path.parent
        return folder if self.spool is None else self.spool.home(folder)

    @property
    def folder(self) -> Path | None:
        """Return the same folder; None: nothing could be written so far."""
        return self.home if self._size or self._kept else None

    def leave(self, spool: Elsewhere) -> None:
        """Switch to a spool at the next line. It takes no lock, which a hanging write may hold."""
        self._next_spool = spool
        self._full = 0

    def write(self, line: bytes) -> bool:
        """Append a line, with its newline; return whether it is in the file."""
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
        """Rotate after a complete line, or handle an incomplete one; return ``is_whole``."""
        if not is_whole:
            # When a disk fills up, only the beginning of a line is written.
            self._torn = True
            return self._fail(OSError(*_DISK_FULL))
        self._rotate()
        return True

    def move(self, path: Path) -> None:
        """Continue in another file, which begins with the lines of the provisional one.

        The preamble writes a new header, as run and rank are known only now.
        """
        self._provisional = old = self.current
        try:
            kept = old.read_bytes().partition(b"\n")[2]
        except OSError:
            kept = b""
        self._provisional_lines = kept[: kept.rfind(b"\n") + 1]
        self._close_descriptor()
        self.path = self.current = path
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
                    # The program has closed our descriptor, and another file has its number.
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
        """Append the last line, and write no more, not even the head of another segment."""
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
            self.fd = -1  # the program has closed it, and another file may have its number
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
            else "Nothing is recorded; set log_dir (COLLECTRACE_LOG_DIR) to a folder that can be "
            "written to."
        )
        log.warning("collectrace: cannot write %s: %s. %s", self.current, why, then)

    def recover(self) -> bool:
        """Open the segment and write its head, if an attempt is due; return whether it is open."""
        if self._closed:
            return False
        if self._next_spool is not None:
            self._enter(self._next_spool)
        elif self._retry_at and time.monotonic_ns() < self._retry_at:
            return False
        try:
            fd = _open(self.current)
        except OSError as problem:
            self._put_off(problem)
            return False
        try:
            status = os.fstat(fd)
            self.inode = status.st_ino
            head = b"\n" if self._torn and status.st_size else b""
            # After a loss, the preamble's checkpoint contains its size and the streams' positions.
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
        """Continue with a new segment in a spool. The segments before it stay where they are."""
        self._next_spool = None
        if self._size:
            self._segment += 1
        self.spool, self.path = spool, spool.folder / self.path.parent.name / self.path.name
        self.current = self._named(self._segment)
        self._size, self._kept, self._torn = 0, [], False

    def _named(self, segment: int) -> Path:
        if not segment:
            return self.path
        return self.path.with_name(f"{self.path.stem}.{segment:04d}.jsonl")

    def _put_off(self, problem: OSError) -> None:
        self._retry_at = time.monotonic_ns() + _RETRY_AFTER
        self._warn(problem.strerror or str(problem))

    def _rotate(self) -> None:
        self._kept.append((self.current, self._size))
        self._close_descriptor()
        self._segment += 1
        self._size = 0
        self.current = self._named(self._segment)
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
            with contextlib.suppress(OSError):
                os.close(fd)


def _lines(fd: int) -> int:
    """Return the number of lines in an open file, which may be deleted."""
    count = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        count += chunk.count(b"\n")
        offset += len(chunk)
    return count


def _open(path: Path) -> int:
    for _ in range(_OPEN_ATTEMPTS):
        # Another rank may remove the folder of the provisional files while it is empty.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            file_modes.make_folder(path.parent)
            return open_to_append(path)
    return open_to_append(path)


def open_to_append(path: Path) -> int:
    """Open or create a file to append to it; return a descriptor of a high number, if possible.

    Raises:
        OSError: it cannot be opened.

    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(path, flags, file_modes.of_files())
    for lowest in _LOWEST:
        if fd >= lowest:
            return fd
        with contextlib.suppress(OSError):  # the limit of descriptors may be lower
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
            os.close(fd)
            return moved
    os.close(fd)
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _remove(provisional: Path) -> None:
    with contextlib.suppress(OSError):  # other ranks' files are in the folder
        provisional.unlink(missing_ok=True)
        provisional.parent.rmdir()
