"""Read source files of the user's program, with names from code objects or logs.

Such a name may be anything: code can be compiled under the name of a device or of a pipe.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import time
import tokenize
from typing import Final

MOST_BYTES: Final = 2 << 20
"""Bytes of a file that is worth reading; no script is larger."""

_MOST_SECONDS: Final = 2.0
"""Seconds that the reading of one file may take."""

_CHUNK: Final = 256 << 10

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read(path: str, most: int = MOST_BYTES, within: float = _MOST_SECONDS) -> bytes | None:
    """Return the content of a regular file.

    None: there is no such file, it is not a regular one, it holds more than ``most`` bytes, or
    ``within`` seconds were not enough.
    """
    try:
        # Opening alone has effects: the writer of a pipe goes on, a device begins its work.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a Path splits the name first
            return None
        fd = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    try:
        # Another file may have taken the name since.
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return _read(fd, most, time.monotonic() + within)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read(fd: int, most: int, until: float) -> bytes | None:
    # The size of the file does not count: files of the kernel claim 0, others grow.
    parts: list[bytes] = []
    size = 0
    while part := os.read(fd, min(_CHUNK, most - size + 1)):
        size += len(part)
        if size > most or time.monotonic() > until:
            return None
        parts.append(part)
    return b"".join(parts)


_SLOW: Final = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape"})
"""Encodings that no program uses, and that may take quadratic time."""


def decode(data: bytes) -> str | None:
    """Return the text of a Python file, lines ended by a newline alone; None if it has none.

    The encoding is the one that the file names, as for the interpreter.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if codecs.lookup(encoding).name.replace("-", "_") in _SLOW:
            return None
        return io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (SyntaxError, LookupError, ValueError):
        return None
