"""Archives and packed files from anywhere, read once from front to back, within bounds."""

from __future__ import annotations

import bz2
import io
import lzma
import math
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final, Literal, Protocol, cast

_CHUNK: Final = 1 << 15
_MAGIC: Final = 6
LONGEST_HEADER: Final = 1 << 20
"""Limit of the bytes before a file in an archive: its name and fields."""

_MEMORY: Final = 256 << 20
"""Bytes of memory that unpacking an xz file may take; ``xz -9`` takes 65 MiB."""


class Damaged(Exception):
    """A file is cut short or damaged, or is not a packed file or an archive."""


class TooLarge(Exception):
    """An archive unpacks to more than is allowed."""


BROKEN: Final = (
    Damaged, tarfile.TarError, ValueError, LookupError, ArithmeticError, RecursionError,
)  # fmt: skip
"""What tarfile raises of an archive that is damaged; RecursionError: of fields before fields."""


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""


class _Engine(Protocol):
    """Unpacks one packed stream, as the classes of bz2 and lzma do."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)


def _engine(head: bytes) -> _Engine | None:
    """Return what unpacks a stream that begins so; None if it is not packed."""
    if head.startswith(b"\x1f\x8b"):
        return _Gzip()
    if head.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor(memlimit=_MEMORY)
    return None


class Unpacked:
    """The content of a packed stream, unpacked piece by piece as it is read."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._data = b""
        self._engine: _Engine | None = None
        self._began = False

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and none at the end.

        Raises:
            Damaged: it is cut short, damaged, or not packed.

        """
        while self._engine is not None or self._begins():
            engine, out = self._engine, b""
            assert engine is not None
            if engine.needs_input and not self._data:
                self._data = self._raw.read(_CHUNK)
            is_end = engine.needs_input and not self._data
            try:
                out = engine.decompress(self._data, size)
            except (zlib.error, lzma.LZMAError, OSError, ValueError) as problem:
                raise Damaged(str(problem)) from None
            self._data = b""
            if engine.eof:
                self._data, self._engine = engine.unused_data, None
            elif is_end and not out:
                raise Damaged("it is cut short")
            if out:
                return out
        return b""

    def _begins(self) -> bool:
        """Begin with the next packed stream; false at the end, which zeros may fill up."""
        self._data = self._data.lstrip(b"\0") + self._raw.read(_CHUNK)
        self._engine = _engine(self._data)
        if self._engine is None and not self._began:
            raise Damaged("it is not packed")
        self._began = True
        return self._engine is not None


class _Watched:
    """A stream with limits for tarfile, which reads past the end, and names of any length."""

    def __init__(self, raw: Readable, most: float) -> None:
        self._raw, self._most = raw, most
        self._at = 0
        self._is_over = False
        self.stop: float = LONGEST_HEADER
        """The offset up to which it may read."""

    def read(self, size: int, /) -> bytes:
        if self._at + size > self.stop + _CHUNK:
            raise Damaged("a name in it is too long")
        data = self._raw.read(size)
        self._at += len(data)
        if self._at > self._most:
            raise TooLarge
        if not data and self._is_over:
            raise Damaged("it is cut short")
        self._is_over = not data
        return data

    def tell(self) -> int:
        return self._at

    def seek(self, to: int, /) -> int:
        assert isinstance(self._raw, io.IOBase)
        self._at = self._raw.seek(to)
        return self._at


class Archive:
    """The regular files of a tar archive, to be read in order.

    ``raw``: a file, packed or not, or a pipe. ``most``: limit of the unpacked bytes.

    All may raise what :data:`BROKEN` lists, TooLarge and OSError.
    """

    def __init__(self, raw: IO[bytes], most: float = math.inf) -> None:
        is_packed = False
        if raw.seekable():
            is_packed = _engine(raw.read(_MAGIC)) is not None
            raw.seek(0)
        self.is_plain: Final = raw.seekable() and not is_packed
        """Whether ``raw`` holds the bytes of each file unpacked, at ``member.offset_data``."""
        self._watched = _Watched(Unpacked(raw), most) if is_packed else _Watched(raw, math.inf)
        mode: Literal["r:", "r|"] = "r:" if self.is_plain else "r|"
        self._tar = tarfile.open(fileobj=cast(IO[bytes], self._watched), mode=mode)  # noqa: SIM115

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while True:
            self._watched.stop = self._tar.offset + LONGEST_HEADER
            member = self._tar.next()
            self._watched.stop = math.inf
            if member is None:
                return
            cast(Any, self._tar).members.clear()  # or it keeps them all
            if member.isreg():
                yield member

    def open(self, member: tarfile.TarInfo) -> IO[bytes]:
        """Return a stream of the file that the iteration yielded last."""
        found = self._tar.extractfile(member)
        assert found is not None
        return found
