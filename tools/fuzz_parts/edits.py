"""What may happen to a log: bytes, lines, fields, ranges and files of it are harmed.

Each edit changes a :class:`Log` in place, by a random generator, and returns what it did in a few
words; None: it found nothing to harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tools.fuzz_parts.fields import change_field, change_field_of
from tools.fuzz_parts.forging import forge_call
from tools.fuzz_parts.log import Edit, Log, lines_of, rank_of

# -- bytes -----------------------------------------------------------------------------------

_BYTES: Final = b'abz019,:"{}[]\\ \n\r\t\x00\x1b\x80\xe2\xff'


def replace_bytes(log: Log, random_: random.Random) -> str | None:
    """Put other bytes in place of some."""
    path = log.any(random_)
    if path is None:
        return None
    data = log.files[path]
    at, count = random_.randrange(len(data)), random_.choice((1, 1, 1, 2, 8, 100))
    new = bytes(random_.choice(_BYTES) for _ in range(count))
    log.files[path] = data[:at] + new + data[at + count :]
    return f"{count} bytes of {path} at {at}"


def flip_bit(log: Log, random_: random.Random) -> str | None:
    """Turn one bit round."""
    path = log.any(random_)
    if path is None:
        return None
    data = bytearray(log.files[path])
    at, bit = random_.randrange(len(data)), random_.randrange(8)
    data[at] ^= 1 << bit
    log.files[path] = bytes(data)
    return f"bit {bit} of {path} at {at}"


def insert_bytes(log: Log, random_: random.Random) -> str | None:
    """Insert a few bytes, or some of the file's own."""
    path = log.any(random_)
    if path is None:
        return None
    data, at = log.files[path], random_.randrange(len(log.files[path]) + 1)
    start = random_.randrange(len(data))
    own = data[start : start + random_.choice((1, 20, 500))]
    new = random_.choice((own, bytes(random_.choice(_BYTES) for _ in range(4))))
    log.files[path] = data[:at] + new + data[at:]
    return f"{len(new)} bytes into {path} at {at}"


def remove_bytes(log: Log, random_: random.Random) -> str | None:
    """Take out a few bytes."""
    path = log.any(random_)
    if path is None:
        return None
    data, at = log.files[path], random_.randrange(len(log.files[path]))
    count = random_.choice((1, 1, 3, 20, 300))
    log.files[path] = data[:at] + data[at + count :]
    return f"{count} bytes out of {path} at {at}"


# -- lines -----------------------------------------------------------------------------------


def _with_lines(change: Callable[[list[bytes], int, random.Random], str]) -> Edit:
    """Return the edit that changes the lines of one file, at one of them."""

    def edit(log: Log, random_: random.Random) -> str | None:
        paths = [path for path in log.logs() if path.endswith(".jsonl")]
        if not paths:
            return None
        path = random_.choice(paths)
        lines = lines_of(log.files[path])
        at = random_.randrange(len(lines))
        what = change(lines, at, random_)
        log.files[path] = b"".join(lines)
        return f"{what}, {path} line {at}"

    edit.__name__ = change.__name__
    edit.__doc__ = change.__doc__
    return edit


@_with_lines
def delete_line(lines: list[bytes], at: int, random_: random.Random) -> str:
    """Delete lines."""
    count = random_.choice((1, 1, 1, 2, 5, 20))
    del lines[at : at + count]
    return f"{count} deleted"


@_with_lines
def duplicate_line(lines: list[bytes], at: int, random_: random.Random) -> str:
    """Write a line twice."""
    to = random_.choice((at, random_.randrange(len(lines)), len(lines)))
    lines.insert(to, lines[at])
    return f"again at {to}"


@_with_lines
def swap_lines(lines: list[bytes], at: int, random_: random.Random) -> str:
    """Let two lines change places."""
    to = random_.choice((min(at + 1, len(lines) - 1), random_.randrange(len(lines))))
    lines[at], lines[to] = lines[to], lines[at]
    return f"swapped with {to}"


@_with_lines
def tear_line(lines: list[bytes], at: int, random_: random.Random) -> str:
    """Lose the end of a line, perhaps with its newline."""
    keep = random_.randrange(len(lines[at]))
    lines[at] = lines[at][:keep] + random_.choice((b"", b"\n"))
    return f"torn after {keep}"


# -- ranges ----------------------------------------------------------------------------------


def lose_tail(log: Log, random_: random.Random) -> str | None:
    """Cut a file: at a byte, or behind a line."""
    path = log.any(random_)
    if path is None:
        return None
    data = log.files[path]
    at = random_.randrange(len(data))
    if random_.random() < 0.5:
        at = data.rfind(b"\n", 0, at) + 1
    log.files[path] = data[:at]
    return f"{path} ends at {at}"


def lose_middle(log: Log, random_: random.Random) -> str | None:
    """Lose a range, its place perhaps filled with zeros."""
    path = log.any(random_)
    if path is None:
        return None
    data = log.files[path]
    start, stop = sorted(random_.randrange(len(data) + 1) for _ in range(2))
    if random_.random() < 0.3:
        stop = min(stop, start + 512)
    fill = bytes(stop - start) if random_.random() < 0.5 else b""
    log.files[path] = data[:start] + fill + data[stop:]
    return f"{start} to {stop} of {path} {'zeroed' if fill else 'lost'}"


# -- files -----------------------------------------------------------------------------------


def lose_file(log: Log, random_: random.Random) -> str | None:
    """Remove a file, or empty it."""
    path = log.any(random_)
    if path is None:
        return None
    if random_.random() < 0.5:
        del log.files[path]
        return f"{path} is gone"
    log.files[path] = random_.choice((b"", b"\n", b"{}\n", bytes(100)))
    return f"{path} is empty"


def exchange_files(log: Log, random_: random.Random) -> str | None:
    """Let two files change their names."""
    if len(log.logs()) < 2:
        return None
    one, two = random_.sample(log.logs(), 2)
    log.files[one], log.files[two] = log.files[two], log.files[one]
    return f"{one} and {two} exchanged"


def copy_file(log: Log, random_: random.Random) -> str | None:
    """Copy a file under another rank, beside or in place of that rank's own."""
    path = log.any(random_)
    if path is None or rank_of(path) is None:
        return None
    rank = random_.choice((*(rank_of(p) or 0 for p in log.logs()), 9))
    folder, slash, _ = path.rpartition("/")
    folder = random_.choice((folder, folder, f"{folder}{slash}other"))
    name = f"rank{rank:05d}.jsonl" if path.endswith(".jsonl") else f"nccl_trace_rank_{rank}"
    to = f"{folder}/{name}".lstrip("/")
    log.files[to] = log.files[path]
    return f"{path} copied to {to}"


# -- several ranks ---------------------------------------------------------------------------


def harm_all(log: Log, random_: random.Random) -> str | None:
    """Do the same to a line that the files of all ranks have."""
    paths = [path for path in log.logs() if path.endswith(".jsonl")]
    lines = {path: lines_of(log.files[path]) for path in paths}
    if not paths:
        return None
    at = random_.randrange(min(map(len, lines.values())))
    seed, delete, told = random_.random(), random_.random() < 0.4, ""
    for path in paths:
        if delete:
            del lines[path][at]
            log.files[path] = b"".join(lines[path])
            told = "deleted"
        else:
            told = change_field_of(log, path, at, random.Random(seed)) or told
    return f"on all ranks: line {at} {told}"


EDITS: Final[Mapping[str, tuple[Edit, ...]]] = {
    "bytes": (replace_bytes, flip_bit, insert_bytes, remove_bytes),
    "lines": (delete_line, duplicate_line, swap_lines, tear_line),
    "fields": (change_field,),
    "ranges": (lose_tail, lose_middle),
    "files": (lose_file, exchange_files, copy_file),
    "all ranks": (harm_all,),
    "another call": (forge_call,),
}
"""The edits, by kind of mutation."""

WEIGHTS: Final[Mapping[str, int]] = {
    "bytes": 20, "lines": 20, "fields": 40, "ranges": 10, "files": 8, "all ranks": 8,
    "another call": 4,
}  # fmt: skip
"""How often each kind is chosen."""
