"""Read packed logs: ``.jsonl.gz``, and ``.tar`` or ``.tar.gz`` of a log folder.

The content is not trusted. Nothing is written under a name from an archive: bytes go to one
temporary file without a name, as many as :class:`Spool` allows. Links, devices and files that are
not logs are ignored.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple, Protocol

from collectrace.archives import BROKEN, Archive, Readable, TooLarge, Unpacked
from collectrace.errors import READ_ADVICE, LogError, Unreadable

GZIP: Final = ".gz"

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK: Final = 1 << 20

_RATIO: Final = 300
"""Bytes that a byte of a packed file may become: rank files become 10 to 50."""

_ALWAYS: Final = 64 << 20
"""Bytes that any packed file may become, however small it is."""

_MOST_FILES: Final = 1_000_000
_DEEPEST: Final = 8
"""Nested folders in an archive; a log folder is not that deep."""


class Bytes(Protocol):
    """A file that holds others."""

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` .. ``stop - 1``."""


class Spool:
    """A temporary file without a name, which holds unpacked bytes.

    It takes at most a multiple of the packed size, and at most half of the free space on its disk.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._packed = self._end = 0
        self.most = 0
        """Bytes that it takes at most."""

    def expect(self, packed: int) -> None:
        """Expect that many more packed bytes."""
        if self._file is None:
            file = tempfile.TemporaryFile(prefix="collectrace-")  # noqa: SIM115 - closed with this
            weakref.finalize(self, file.close)
            self._file = file
        self._packed += packed
        free = self._end + shutil.disk_usage(tempfile.gettempdir()).free
        self.most = min(_most_of(self._packed), free // 2)

    def take(self, name: str, stream: Readable, packed: int | None = None) -> SpooledBlob:
        """Read a stream to its end, or to where it is damaged.

        Args:
            name: of the file.
            stream: the content of the file.
            packed: its size in packed bytes; None: its archive is bounded as a whole.

        Raises:
            Unreadable: it holds more than is allowed. Nothing of it is kept.

        """
        assert self._file is not None
        start = self._end
        most = self.most if packed is None else min(self.most, start + _most_of(packed))
        try:
            while chunk := stream.read(_CHUNK):
                if self._end + len(chunk) > most:
                    self._file.seek(start)
                    self._file.truncate()
                    self._end = start
                    raise _too_large(name, most - start)
                self._file.write(chunk)
                self._end += len(chunk)
        except BROKEN:
            pass  # the bytes before the damage are as good as a log that was cut off
        finally:
            self._file.flush()
        return SpooledBlob(name, self._end - start, self, start)

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the file, by their offsets."""
        assert self._file is not None
        return os.pread(self._file.fileno(), max(0, stop - start), start)


def _most_of(packed: int) -> int:
    return max(_ALWAYS, _RATIO * packed)


class _Unspooled:
    """An archive that is not compressed: its files are read in place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the file, by their offsets."""
        try:
            with self._path.open("rb", buffering=0) as file:
                return os.pread(file.fileno(), max(0, stop - start), start)
        except OSError as problem:
            raise Unreadable(self._path, problem.strerror or str(problem)) from None


@dataclass(frozen=True, slots=True)
class SpooledBlob:
    """A file of an archive, or an unpacked one; implements ``log_folder.Blob``."""

    name: str
    size: int
    spool: Bytes
    at: int
    """Its offset in the spool."""
    written: int | None = None
    """When it was last written to before it was packed, ns since 1970; None: not known."""

    def read(self, start: int, stop: int) -> bytes:
        """See ``log_folder.Blob``."""
        return self.spool.read(self.at + start, self.at + min(stop, self.size))


@dataclass(frozen=True, slots=True)
class UnreadBlob:
    """A file that cannot be read; implements ``log_folder.Blob``."""

    name: str
    why: str
    size: int = 1
    """Not empty, so that the loss is noticed."""
    written: int | None = None

    def read(self, start: int, stop: int) -> bytes:  # noqa: ARG002 - of the protocol
        """See ``log_folder.Blob``."""
        raise Unreadable(self.name, self.why)


def is_archive(name: str) -> bool:
    """Return whether a file's name is that of an archive."""
    return name.endswith(ARCHIVES)


def inflate(name: str, path: Path, spool: Spool) -> SpooledBlob | UnreadBlob:
    """Unpack a ``.gz`` file, under its name without the suffix."""
    name = name.removesuffix(GZIP)
    try:
        size = path.stat().st_size
        spool.expect(size)
        with path.open("rb") as stream:
            return spool.take(name, Unpacked(stream), size)
    except Unreadable as problem:
        return UnreadBlob(name, problem.why)
    except OSError as problem:
        return UnreadBlob(name, problem.strerror or str(problem))


class Contents(NamedTuple):
    """The files of an archive."""

    files: list[SpooledBlob | UnreadBlob]
    note: str
    """What could not be read; empty if the archive is complete."""


def unpack(path: Path, is_wanted: Callable[[str], bool] = lambda _: True) -> Contents:
    """Return the files of an archive with wanted names, ignoring a ``.gz`` suffix.

    Raises:
        LogError: it cannot be read, is not an archive, or is too large unpacked.

    """
    spool, found, note = Spool(), list[SpooledBlob | UnreadBlob](), ""
    try:
        spool.expect(path.stat().st_size)
        with path.open("rb") as file:
            archive = Archive(file, spool.most)
            for n, member in enumerate(archive):
                if n >= _MOST_FILES:
                    raise LogError(f"{path} holds more than {_MOST_FILES:,} files. Unpack it.")
                name = _plain(member.name)
                is_near = len(PurePosixPath(member.name).parts) <= _DEEPEST
                if is_near and is_wanted(name.removesuffix(GZIP)):
                    found.append(_blob(name, member, archive, spool, path))
    except TooLarge:
        raise _too_large(path, spool.most) from None
    except BROKEN as problem:
        if not found:
            raise LogError(f"{path} is not a readable archive: {problem}. Copy it again.") from None
        note = f"{path.name} is cut short or damaged: the files after that were not read"
    except OSError as problem:
        raise Unreadable(path, problem.strerror or str(problem), READ_ADVICE) from None
    return Contents(found, note)


def _blob(
    name: str, member: tarfile.TarInfo, archive: Archive, spool: Spool, path: Path
) -> SpooledBlob | UnreadBlob:
    written = _time(member)
    if archive.is_plain and not member.issparse() and not name.endswith(GZIP):
        there = max(0, min(member.size, path.stat().st_size - member.offset_data))
        return SpooledBlob(name, there, _Unspooled(path), member.offset_data, written)
    stream = archive.open(member)
    if not name.endswith(GZIP):
        return replace(spool.take(name, stream), written=written)
    name = name.removesuffix(GZIP)
    try:
        return replace(spool.take(name, Unpacked(stream), member.size), written=written)
    except Unreadable as problem:
        return UnreadBlob(name, problem.why)


def _too_large(name: object, most: int) -> Unreadable:
    why = f"it unpacks to more than {most >> 20} MiB. Unpack it yourself, and give the folder."
    return Unreadable(name, why)


def _time(member: tarfile.TarInfo) -> int | None:
    """Return when a file was written; None if the archive does not say (archivers write 0)."""
    is_sound = isinstance(member.mtime, int | float) and 0 < member.mtime < 1 << 33
    return round(member.mtime * 1e9) if is_sound else None


def _plain(name: str) -> str:
    """Return a name below the archive's root: it is only displayed."""
    return "/".join(part for part in PurePosixPath(name).parts if part not in ("/", "..", "."))
