"""The program that moves the files of a spool to the log folder, in a separate process.

While a rank records into a spool, only this process touches the log folder's file system. A write
that blocks there cannot be interrupted. A thread in such a write would keep the rank from ending.
The mover survives a rank that is killed, and moves the rest.

It imports only the standard library, as the package may be on the same file system.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAUSE: Final = 0.05
"""Seconds between two passes."""
_SHARE: Final = 10
"""A pause is at least this many times as long as the pass before it."""
_LONGEST_PAUSE: Final = 2.0
_IDLE_PAUSE: Final = 0.25
"""Seconds between two passes if nothing was written for a while."""

_PATIENCE: Final = 600.0
"""Seconds after the rank's end in which moving is retried. Then the rest stays in the spool."""

_OLD: Final = 3600
"""Seconds after which the time of an emptied file is renewed."""

PENDING: Final = "pending"
"""See ``collectrace.log_folder``."""

_CHUNK: Final = 1 << 20

OVER: Final = "over"
"""The file that the rank creates after its last line. The mover removes it when all is moved."""

INODE: Final = 10**19
"""Placeholder of the inode in a header: the moved file gets its own, in as many characters."""

_PART: Final = re.compile(r"\.collectrace-[0-9a-f]+\.part")
_TEXT: Final = re.compile(r"[0-9a-f]{64}\.py")
_SEGMENT: Final = re.compile(r"(?P<stem>.+?)(?:\.(?P<ordinal>\d+))?\.jsonl")


@dataclass
class _Copy:
    """A file in the log folder, and how much of it is moved."""

    path: Path
    fd: int = -1
    """-1: it is not open."""
    size: int = 0
    """Bytes moved."""
    source: int = 0
    """Inode of the source file. A new file with the same name is appended."""
    begins: int = 0
    """Bytes before the source file's own."""
    head: bytes = b""
    """The first line, with the inode of this copy."""
    seen: tuple[int, int] | None = None
    """For a file that is moved as a whole: size and time of change of the source then."""
    is_ours: bool = True
    """Whether this mover created it."""


class Mover:
    """Copies a spool to a folder, pass by pass. New folders get ``mode``."""

    def __init__(self, spool: Path, folder: Path, mode: int) -> None:
        self._spool, self._folder, self._mode = spool, folder, mode
        self.moved = 0
        """Bytes moved so far."""
        self._copies: dict[Path, _Copy] = {}
        """By path in the spool."""
        self._stems: dict[tuple[Path, str], str] = {}
        """By folder and name in the spool, the name in the log folder, each up to the first dot."""

    def step(self) -> bool:
        """Move what is new; return whether the log folder is complete now."""
        files = dict(_walk(self._spool))
        for path in [path for path in self._copies if path not in files]:
            if _is_removed(path, self._copies[path], files):
                self._remove(path)
        last = _last_segments(files)
        is_whole = True
        for path in sorted(files, key=_order):
            is_growing = _SEGMENT.fullmatch(path.name) is not None
            try:
                if not is_growing:
                    self._replace(path, files[path])
                else:
                    self._append(path, files[path])
                    if path not in last:
                        self._end(path, files[path])
            except FileNotFoundError:
                is_whole = is_whole and not path.exists()
            except OSError:
                is_whole = False
        return is_whole

    def close(self) -> bool:
        """Close the files; return whether no close failed."""
        is_whole = True
        for copy in self._copies.values():
            try:
                _close(copy)
            except OSError:
                is_whole = False
        return is_whole

    def _append(self, path: Path, status: os.stat_result) -> None:
        copy = self._copies.get(path)
        if copy is not None:
            if copy.source != status.st_ino:
                copy.source, copy.begins, copy.head = status.st_ino, copy.size, b""
            if copy.size - copy.begins >= status.st_size:
                return
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if copy is None:
                copy = self._copies[path] = self._create(path, status)
            if copy.fd < 0 or not os.fstat(copy.fd).st_nlink:
                self._open(copy, status)
            if not copy.head:
                copy.head = _head(source, os.fstat(copy.fd).st_ino)
            while (done := copy.size - copy.begins) < status.st_size:
                data = copy.head[done:] or os.pread(source, _CHUNK, done)
                if not data:
                    break
                written = os.write(copy.fd, data)
                copy.size += written
                self.moved += written
        except OSError:
            if copy is not None:
                with contextlib.suppress(OSError):
                    _close(copy)
            raise
        finally:
            os.close(source)

    def _create(self, path: Path, status: os.stat_result) -> _Copy:
        """Create the file; if another process has taken its name, under a name beside it."""
        target = self._target(path)
        stem, dot, rest = path.name.partition(".")
        is_first = (path.parent, stem) not in self._stems
        for n in range(100 if is_first else 1):
            if n:
                target = target.with_name(f"{stem.partition('+')[0]}+{n}{dot}{rest}")
            try:
                fd = _make(target, status.st_mode, self._mode, os.O_EXCL)
            except FileExistsError:
                continue
            self._stems[path.parent, stem] = target.name.partition(".")[0]
            return _Copy(target, fd, source=status.st_ino)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))

    def _open(self, copy: _Copy, status: os.stat_result) -> None:
        """Open the file again. It may be deleted, or its size may differ from the last write's."""
        with contextlib.suppress(OSError):
            _close(copy)
        copy.fd = _make(copy.path, status.st_mode, self._mode, 0)
        copy.size = min(os.fstat(copy.fd).st_size, copy.begins + status.st_size)
        copy.begins = min(copy.begins, copy.size)
        if copy.size == copy.begins:
            copy.head = b""

    def _end(self, path: Path, status: os.stat_result) -> None:
        """Empty a segment that is complete in the log folder; its name shows that it is kept."""
        copy = self._copies[path]
        if copy.size - copy.begins >= status.st_size > 0:
            _close(copy)
            os.truncate(path, 0)
        elif time.time() - status.st_mtime > _OLD:
            os.utime(path)  # so that no cleaner of temporary files removes it

    def _replace(self, path: Path, status: os.stat_result) -> None:
        seen = status.st_size, status.st_mtime_ns
        copy = self._copies.get(path)
        if copy is not None and copy.seen == seen:
            return
        target = self._target(path)
        is_text = _TEXT.fullmatch(path.name) is not None
        if is_text and target.exists():
            self._copies[path] = _Copy(target, seen=seen, is_ours=False)
            return
        data = path.read_bytes()
        part = target.with_name(f".collectrace-{os.urandom(8).hex()}.part")
        fd = _make(part, status.st_mode, self._mode, os.O_EXCL)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            part.rename(target)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        self._copies[path] = _Copy(target, seen=seen, is_ours=not is_text)

    def _remove(self, path: Path) -> None:
        """Remove a file that the rank has removed."""
        copy = self._copies[path]
        with contextlib.suppress(OSError):
            _close(copy)
        if copy.is_ours:
            with contextlib.suppress(FileNotFoundError):
                try:
                    copy.path.unlink()
                except OSError:
                    return
            if not path.parent.exists():
                with contextlib.suppress(OSError):
                    copy.path.parent.rmdir()
        del self._copies[path]

    def _target(self, path: Path) -> Path:
        stem, dot, rest = path.name.partition(".")
        name = self._stems.get((path.parent, stem), stem) + dot + rest
        return self._folder / path.parent.relative_to(self._spool) / name


def _is_removed(path: Path, copy: _Copy, files: Mapping[Path, os.stat_result]) -> bool:
    """Return whether the rank has removed a file of the spool, and nobody else.

    A rank removes provisional files, segments before the one being written, and empty files.
    """
    if copy.seen is not None:
        return not copy.seen[0]
    *of, ordinal = _order(path)
    others = map(_order, files)
    return path.parent.name == PENDING or any(
        [*other[:2]] == of and other[2] > ordinal for other in others
    )


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every file below a folder with its status, without files that are half written."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path))
                elif entry.name != OVER and not _PART.fullmatch(entry.name):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _order(path: Path) -> tuple[bool, str, int]:
    """Return a sort key: rank files first, as they determine the others' names; then by ordinal."""
    found = _SEGMENT.fullmatch(path.name)
    if found is None:
        return True, str(path), 0
    return False, str(path.parent / found["stem"]), int(found["ordinal"] or 0)


def _last_segments(files: dict[Path, os.stat_result]) -> set[Path]:
    """Return the segment of each process that is being written."""
    last: dict[tuple[Path, str], Path] = {}
    for path in sorted(files, key=_order):
        found = _SEGMENT.fullmatch(path.name)
        if found is not None:
            last[path.parent, found["stem"]] = path
    return set(last.values())


def _head(source: int, inode: int) -> bytes:
    """Return the first line of a segment, with the inode of the file that it is moved to."""
    line, newline, _ = os.pread(source, _CHUNK, 0).partition(b"\n")
    wanted = b"%d" % INODE
    return line.replace(b'"inode":' + wanted, b'"inode":%-*d' % (len(wanted), inode), 1) + newline


def _make(path: Path, mode: int, mode_of_folder: int, more: int) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | more
    try:
        return os.open(path, flags, mode & 0o777)
    except FileNotFoundError:
        path.parent.mkdir(mode_of_folder, parents=True, exist_ok=True)
        return os.open(path, flags, mode & 0o777)


def _close(copy: _Copy) -> None:
    """Close a file. A network file system may report only then that a write has failed."""
    if copy.fd >= 0:
        fd, copy.fd = copy.fd, -1
        os.close(fd)


def move(spool: Path, folder: Path, mode: int, rank: int) -> None:
    """Move files until the rank's process has ended and all is moved, or moving fails too long.

    ``rank``: a descriptor that becomes readable when the rank's process ends.
    """
    mover, pause, until, has_all = Mover(spool, folder, mode), 0.0, 0.0, False
    while True:
        is_gone = bool(select.select([rank], [], [], None if has_all else pause)[0])
        is_over = (spool / OVER).exists()
        if is_gone and not until:
            until = time.monotonic() + _PATIENCE
        if not has_all:
            began, before = time.monotonic(), mover.moved
            is_whole = mover.step()
            has_all = is_whole and (is_gone or is_over) and mover.close()
            lasted = time.monotonic() - began
            idle = _PAUSE if mover.moved > before else min(2 * pause, _IDLE_PAUSE)
            pause = min(max(_PAUSE, idle, _SHARE * lasted), _LONGEST_PAUSE)
        if has_all and is_gone:
            shutil.rmtree(spool, ignore_errors=True)
            return
        if has_all:
            (spool / OVER).unlink(missing_ok=True)
        elif is_gone:
            if time.monotonic() > until:
                return
            time.sleep(pause)


def main() -> None:
    """Run as ``mover.py SPOOL FOLDER MODE PID``: return at once, and move in the background."""
    spool, folder, mode, pid = sys.argv[1:]
    rank = os.pidfd_open(int(pid))
    if os.fork():
        os._exit(0)  # so that the mover is not a child of the program, which might wait for it
    os.setsid()
    os.chdir("/")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # a signal that ends the rank must not end the mover
    move(Path(spool), Path(folder), int(mode, 8), rank)


if __name__ == "__main__":
    main()
