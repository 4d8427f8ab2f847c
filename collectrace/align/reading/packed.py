"""Logs that were packed to be sent: ``.jsonl.gz``, and ``.tar`` or ``.tar.gz`` of a log folder.

What is inside is not to be trusted. Nothing is ever written under a name out of an archive: bytes
go to one temporary file without a name, as many as :class:`Spool` allows, and links, devices and
whatever is no log are left where they are.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol, cast

from collectrace.errors import LogError

GZIP: Final = ".gz"

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK: Final = 1 << 20

_RATIO: Final = 300
"""Bytes that a byte of a packed file may become: rank files become some 10 to 50."""

_ALWAYS: Final = 64 << 20
"""Bytes that any packed file may become, however small it is."""

_MOST_FILES: Final = 1_000_000
_DEEPEST: Final = 8
"""Folders within each other in an archive; deeper ones are no log folder."""

_BROKEN: Final = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, gzip.BadGzipFile)
"""What a file raises that is cut short, or is not what its name says."""


class Source(Protocol):
    """A stream of bytes."""

    def read1(self, size: int, /) -> bytes:
        """What one read of its own source gives, at most ``size`` bytes; none at its end."""


class Spool:
    """A temporary file without a name, which holds what was unpacked.

    It takes no more than a multiple of what is expected, and no more than half of what
    is free on its disk.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._packed = self._end = self._most = 0

    def expect(self, packed: int) -> None:
        """So many bytes more are to be unpacked into it."""
        if self._file is None:
            file = tempfile.TemporaryFile(prefix="collectrace-")  # noqa: SIM115 - closed with this
            weakref.finalize(self, file.close)
            self._file = file
        self._packed += packed
        free = self._end + shutil.disk_usage(tempfile.gettempdir()).free
        self._most = min(max(_ALWAYS, _RATIO * self._packed), free // 2)

    def take(self, name: str, stream: Source) -> SpooledBlob:
        """Read a stream to its end, or to where it is damaged.

        Raises:
            LogError: it holds more than is taken.

        """
        assert self._file is not None
        start = self._end
        try:
            while chunk := stream.read1(_CHUNK):
                if self._end + len(chunk) > self._most:
                    raise LogError(
                        f"{name} unpacks to more than {self._most >> 20} MiB; unpack it yourself "
                        "and give the folder"
                    )
                self._file.write(chunk)
                self._end += len(chunk)
        except _BROKEN:
            pass  # what came before tells as much as a log that was cut off
        finally:
            self._file.flush()
        return SpooledBlob(name, self._end - start, self, start)

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of the file, by their offsets."""
        assert self._file is not None
        return os.pread(self._file.fileno(), max(0, stop - start), start)


@dataclass(frozen=True, slots=True)
class SpooledBlob:
    """A file that was unpacked; implements ``source.Blob``."""

    name: str
    size: int
    spool: Spool
    at: int
    """Where it begins in the spool."""
    written: int | None = None
    """When it was last written to before it was packed, ns since 1970; None: not known."""

    def read(self, start: int, stop: int) -> bytes:
        """See ``source.Blob``."""
        return self.spool.read(self.at + start, self.at + min(stop, self.size))


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.endswith(ARCHIVES)


def inflate(name: str, path: Path, spool: Spool) -> SpooledBlob:
    """A ``.gz`` file, under its name without that.

    Raises:
        LogError: it cannot be read, or is too large unpacked.

    """
    try:
        spool.expect(path.stat().st_size)
        with gzip.open(path) as stream:
            return spool.take(name.removesuffix(GZIP), stream)
    except OSError as problem:
        raise LogError(f"cannot read {path}: {problem.strerror or problem}") from None


def unpack(path: Path, is_wanted: Callable[[str], bool] = lambda _: True) -> list[SpooledBlob]:
    """The files in an archive with such names, a ``.gz`` behind them left out.

    Raises:
        LogError: it cannot be read, is no archive, or is too large unpacked.

    """
    spool, found = Spool(), []
    spool.expect(path.stat().st_size)
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in _members(archive):
                name = _plain(member.name)
                if not is_wanted(name.removesuffix(GZIP)):
                    continue
                stream = archive.extractfile(member)
                if stream is None:
                    continue
                if name.endswith(GZIP):
                    blob = spool.take(name.removesuffix(GZIP), gzip.GzipFile(fileobj=stream))
                else:
                    blob = spool.take(name, cast(io.BufferedReader, stream))
                found.append(replace(blob, written=_time(member)))
    except _BROKEN as problem:
        if not found:
            raise LogError(f"{path} is no archive that can be read: {problem}") from None
    except OSError as problem:
        raise LogError(f"cannot read {path}: {problem.strerror or problem}") from None
    return found


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Its regular files, until it is at its end or cut short."""
    for n, member in enumerate(archive):
        if n >= _MOST_FILES:
            raise LogError(f"{archive.name!r} holds more than {_MOST_FILES:,} files")
        if member.isreg() and len(PurePosixPath(member.name).parts) <= _DEEPEST:
            yield member


def _time(member: tarfile.TarInfo) -> int | None:
    """When it was written, as far as the archive can be believed: archivers write 0 for nothing."""
    is_sound = isinstance(member.mtime, int | float) and 0 < member.mtime < 1 << 33
    return round(member.mtime * 1e9) if is_sound else None


def _plain(name: str) -> str:
    """A name below the archive's root, whatever it claims: it is only ever shown."""
    return "/".join(part for part in PurePosixPath(name).parts if part not in ("/", "..", "."))
