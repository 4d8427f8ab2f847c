"""The program that moves the files of a spool to the log folder, in a process of its own.

Only this process touches the log folder's file system while a rank records into a spool. A write
that is blocked there can neither be interrupted nor survive the end of a process: a thread would
keep the rank from ending. It outlives a rank that is killed, and moves the rest.

It imports nothing beyond the standard library: the package may lie on the same file system.
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
"""How many times as long as a pass lasted the pause after it lasts at least."""
_LONGEST_PAUSE: Final = 2.0
_IDLE_PAUSE: Final = 0.25
"""Seconds that it lasts if nothing has come for a while."""

_PATIENCE: Final = 600.0
"""Seconds after the end of the rank in which moving is tried again. The rest stays in the spool."""

_OLD: Final = 3600
"""Seconds after which an emptied file is made to look new."""

PENDING: Final = "pending"
"""See ``collectrace.log_folder``."""

_CHUNK: Final = 1 << 20

OVER: Final = "over"
"""The file that the rank makes when it has written its last line. It is removed when all is moved.
"""

INODE: Final = 10**19
"""Stands for a file's number in a header: the moved file gets its own, in as many characters."""

_PART: Final = re.compile(r"\.collectrace-[0-9a-f]+\.part")
_TEXT: Final = re.compile(r"[0-9a-f]{64}\.py")
_SEGMENT: Final = re.compile(r"(?P<stem>.+?)(?:\.(?P<ordinal>\d+))?\.jsonl")


@dataclass
class _Copy:
    """A file in the log folder, and how far it is."""

    path: Path
    fd: int = -1
    """-1: it is not open."""
    size: int = 0
    """Bytes moved."""
    source: int = 0
    """Inode of the file that is moved. Another one that takes its name is added behind it."""
    begins: int = 0
    """Bytes before it."""
    head: bytes = b""
    """Its first line, which has its own inode."""
    seen: tuple[int, int] | None = None
    """Size and time of change when it was moved, of a file that is moved as a whole."""
    is_ours: bool = True
    """Made by this mover."""


class Mover:
    """Makes a folder equal to a spool, pass by pass; ``mode`` is that of new folders."""

    def __init__(self, spool: Path, folder: Path, mode: int) -> None:
        self._spool, self._folder, self._mode = spool, folder, mode
        self.moved = 0
        """Bytes moved so far."""
        self._copies: dict[Path, _Copy] = {}
        """By path in the spool."""
        self._stems: dict[tuple[Path, str], str] = {}
        """Of a process's files in a folder, the name there, up to the first dot."""

    def step(self) -> bool:
        """Move what is new; return whether the log folder has everything now."""
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
        """Close the files; return whether their file system has taken everything."""
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
        """Make the file, beside one that another process has taken: each of them is evidence."""
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
        """Open the file again. It may be gone, and hold more or less than the last write said."""
        with contextlib.suppress(OSError):
            _close(copy)
        copy.fd = _make(copy.path, status.st_mode, self._mode, 0)
        copy.size = min(os.fstat(copy.fd).st_size, copy.begins + status.st_size)
        copy.begins = min(copy.begins, copy.size)
        if copy.size == copy.begins:
            copy.head = b""

    def _end(self, path: Path, status: os.stat_result) -> None:
        """Empty a segment that is whole in the log folder; its name says that it is wanted."""
        copy = self._copies[path]
        if copy.size - copy.begins >= status.st_size > 0:
            _close(copy)
            os.truncate(path, 0)
        elif time.time() - status.st_mtime > _OLD:
            os.utime(path)  # what cleans a folder for temporary files is to leave it

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
    """Whether the rank has removed a file of the spool, and nobody else.

    It removes provisional files, segments before the one being written, and empty files.
    """
    if copy.seen is not None:
        return not copy.seen[0]
    *of, ordinal = _order(path)
    others = map(_order, files)
    return path.parent.name == PENDING or any(
        [*other[:2]] == of and other[2] > ordinal for other in others
    )


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file below a folder, but for those that are being written to get another name."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path))
                elif entry.name != OVER and not _PART.fullmatch(entry.name):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _order(path: Path) -> tuple[bool, str, int]:
    """Rank files first, for they decide what those beside them are called; then by ordinal."""
    found = _SEGMENT.fullmatch(path.name)
    if found is None:
        return True, str(path), 0
    return False, str(path.parent / found["stem"]), int(found["ordinal"] or 0)


def _last_segments(files: dict[Path, os.stat_result]) -> set[Path]:
    """Of each process's segments the one that is written to."""
    last: dict[tuple[Path, str], Path] = {}
    for path in sorted(files, key=_order):
        found = _SEGMENT.fullmatch(path.name)
        if found is not None:
            last[path.parent, found["stem"]] = path
    return set(last.values())


def _head(source: int, inode: int) -> bytes:
    """The first line of a segment, with the inode of the file that it is moved to."""
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
    """Close a file. A network's file system may say only now that it has not taken everything."""
    if copy.fd >= 0:
        fd, copy.fd = copy.fd, -1
        os.close(fd)


def move(spool: Path, folder: Path, mode: int, rank: int) -> None:
    """Move until the rank has written its last line, or is gone, and all is moved.

    ``rank``: a descriptor that can be read when its process is gone.
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
    """Run as ``mover.py SPOOL FOLDER MODE PID``: return at once, and move beside the rank."""
    spool, folder, mode, pid = sys.argv[1:]
    rank = os.pidfd_open(int(pid))
    if os.fork():
        os._exit(0)  # nobody is to wait for the mover, and no program finds it among its children
    os.setsid()
    os.chdir("/")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # what ends the rank is not to end what it has said
    move(Path(spool), Path(folder), int(mode, 8), rank)


if __name__ == "__main__":
    main()
