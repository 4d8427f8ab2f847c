"""What may happen to a log: bytes, lines, fields, ranges and files of it are harmed.

Each edit changes a :class:`Log` in place, by a random generator, and returns what it did in a few
words; None: it found nothing to harm.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from collectrace import chain, ops
from collectrace.errors import DamagedRecord
from collectrace.log_folder import RANK_FILE
from collectrace.records import KINDS, Call, Checkpoint, Group, Record, backend_for, decode, encode
from collectrace.signature import BASE, PRIME

Edit = Callable[["Log", random.Random], str | None]


class Log:
    """A log folder that is being harmed."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.forged: set[int] = set()
        """Ranks of which a call was changed together with all digests behind it."""

    def logs(self) -> list[str]:
        """Return the paths of rank files and dumps that are not empty."""
        return [p for p in sorted(self.files) if self.files[p] and rank_of(p) is not None]

    def any(self, random_: random.Random) -> str | None:
        """Return the path of a file: mostly one of a rank's."""
        among = self.logs() if random_.random() < 0.9 else [p for p in self.files if self.files[p]]
        return random_.choice(among) if among else None


def rank_of(path: str) -> int | None:
    """Return the rank whose file or dump has this path; None: it is no such file."""
    name = path.rpartition("/")[2]
    found = RANK_FILE.fullmatch(name) or re.fullmatch(r"nccl_trace_rank_(\d+)", name)
    return int(found[1]) if found else None


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file, each with its newline."""
    return data.splitlines(keepends=True)


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


# -- fields ----------------------------------------------------------------------------------

HOSTILE: Final = (
    "\x1b[2J\x1b]0;x\x07", "\u202etxt", "<img src=x onerror=alert(1)>", "**b** _c_ `d`",
    "[a](javascript:alert(1))", "![x](http://evil/p.png)", "a\n\n# heading\n", "``` fence",
    "</script><script>alert(1)</script>", "| a | b |", "\0", "\u2028", "a\\", "{{7*7}}",
)  # fmt: skip
"""Texts that do something to what shows them, if it lets them."""

OTHER_TYPES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 1.5, "", "x", "7", [], [0], [[]], [[1], [2]], [None], {}, {"a": 1},
    ["a"],
)  # fmt: skip
EXTREMES: Final[tuple[Any, ...]] = (
    2**31 - 1, 2**31, -(2**31), 2**53, 2**61 - 1, 2**63 - 1, -(2**63), 2**64 - 1, 10**18, -(10**18),
    1e308, -1e308, 5e-324, 1_000_000, "x" * 50_000, "9" * 5_000, [0] * 3_000, ["a"] * 3_000,
    [[1]] * 2_000, 2**40, 100_000,
)  # fmt: skip


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value inside a record, those of nested objects too."""
    items: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value[:8]))
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _like(log: Log, key: Any, random_: random.Random) -> Any:
    """Return a value that the same field has in some line of the log, or an op."""
    if key == "op":
        return random_.choice((*ops.OPS, "all_reduce"))
    if key == "kind":
        return random_.choice([*KINDS])
    pattern = re.compile(rb'"%s":("[^"]*"|\[[^\]]*\]|[^,}\]]*)' % re.escape(str(key)).encode())
    data = log.files[random_.choice(log.logs())]
    start = random_.randrange(len(data))
    found = pattern.search(data, start) or pattern.search(data)
    try:
        return orjson.loads(found[1]) if found else None
    except orjson.JSONDecodeError:
        return None


def _other(log: Log, key: Any, old: Any, random_: random.Random) -> Any:
    """Return another value for a field."""
    sort = random_.random()
    if sort < 0.35:
        return _like(log, key, random_)
    if sort < 0.55 and isinstance(old, int) and not isinstance(old, bool):
        by = random_.choice((1, 1, 2, 10, 1000, 10**9))
        return random_.choice((old + by, old - by, -old, old * 2, old // 2, 0))
    if sort < 0.7 and isinstance(old, list) and old:
        inner = list(old)
        at = random_.randrange(len(inner))
        return random_.choice((inner[:at], inner[::-1], inner + inner[at:], inner[at:], [*inner, 7]))
    if sort < 0.8:
        return random_.choice(HOSTILE)
    if sort < 0.9:
        return random_.choice(EXTREMES)
    return random_.choice((*OTHER_TYPES, _nested(random_.choice((3, 100, 1000)))))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, TypeError, RecursionError):
        return b"null"


def change_field_of(log: Log, path: str, at: int, random_: random.Random) -> str | None:
    """Change, remove or add a field of one line."""
    lines = lines_of(log.files[path])
    try:
        record = orjson.loads(lines[at])
    except (orjson.JSONDecodeError, IndexError):
        return None
    places = [*_places(record)]
    if not isinstance(record, dict) or not places:
        return None
    place = random_.choice(places)
    holder, key = _at(record, place[:-1]), place[-1]
    old, kind = copy.copy(holder[key]), record.get("kind")
    how = random_.random()
    if how < 0.1:
        del holder[key]
        what = "removed"
    elif how < 0.15 and isinstance(holder, dict):
        name = random_.choice([f for cls in KINDS.values() for f in cls.__dataclass_fields__])
        holder[name] = _other(log, name, None, random_)
        what = f"added {name}"
    else:
        holder[key] = _other(log, key, old, random_)
        what = f"was {_dumped(old)[:40]!r}, is {_dumped(holder[key])[:40]!r}"
    lines[at] = _dumped(record) + b"\n"
    log.files[path] = b"".join(lines)
    return f"{kind} {'.'.join(map(str, place))} {what}, {path} line {at}"


def change_field(log: Log, random_: random.Random) -> str | None:
    """Change a field of a line, of each kind of record as often."""
    paths = [path for path in log.logs() if path.endswith(".jsonl")]
    if not paths:
        return change_dump(log, random_)
    path = random_.choice(paths)
    by_kind: dict[bytes, list[int]] = {}
    for n, line in enumerate(lines_of(log.files[path])):
        by_kind.setdefault(line[:16], []).append(n)
    at = random_.choice(by_kind[random_.choice([*by_kind])])
    return change_field_of(log, path, at, random_)


def change_dump(log: Log, random_: random.Random) -> str | None:
    """Change a field of a Flight Recorder dump that is JSON."""
    paths = [path for path in log.logs() if log.files[path].startswith(b"{")]
    if not paths:
        return None
    path = random_.choice(paths)
    try:
        dump = orjson.loads(log.files[path])
    except orjson.JSONDecodeError:
        return None
    place: tuple[Any, ...] = ()
    while isinstance(inner := _at(dump, place), dict | list) and inner:
        # Deeper ones are as likely in all, so that entries are changed more often than the head.
        keys = [*inner] if isinstance(inner, dict) else range(len(inner))
        place = (*place, random_.choice(keys))
        if random_.random() < 0.1:
            break
    if not place:
        return None
    holder, key = _at(dump, place[:-1]), place[-1]
    if random_.random() < 0.15:
        del holder[key]
    else:
        holder[key] = _other(log, key, holder[key], random_)
    log.files[path] = _dumped(dump)
    return f"{'.'.join(map(str, place))} of {path}"


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


# -- a call that is another one --------------------------------------------------------------


def forge_call(log: Log, random_: random.Random) -> str | None:
    """Change a collective together with all digests behind it, as if the rank had made another."""
    ranks = sorted({rank_of(path) for path in log.logs() if path.endswith(".jsonl")} - {None})
    if not ranks:
        return None
    rank = random_.choice([rank for rank in ranks if rank is not None])
    paths = [p for p in sorted(log.files) if rank_of(p) == rank and p.endswith(".jsonl")]
    at, groups, call = [], dict[str, Group](), None
    records: list[list[Record | bytes]] = []
    for path in paths:
        records.append([_decoded(line) for line in lines_of(log.files[path])])
        for record in records[-1]:
            if isinstance(record, Group) and record.phase == "ready":
                groups[record.group] = record
            elif isinstance(record, Call) and record.digest is not None:
                at.append(record)
    at = [c for c in at if _is_shared(groups.get(c.group)) and not c.void and not c.splits]
    if not at:
        return None
    call = random_.choice(at)
    group = groups[call.group]
    backend = backend_for(group.backend, call.device)
    before = chain.step(call, backend, None)
    told = _make_another(call, group, random_)
    after = chain.step(call, backend, None)
    if before.wire == after.wire:
        return None
    log.forged.add(rank)
    delta = after.wire - before.wire, after.program - before.program
    for path, those in zip(paths, records, strict=True):
        for record in those:
            _move(record, call, delta)
        log.files[path] = b"".join(r if isinstance(r, bytes) else encode(r) for r in those)
    return f"call {call.seq} of {call.group} on rank {rank}: {told}, with its digests"


def _is_shared(group: Group | None) -> bool:
    return group is not None and group.member and len(group.ranks) > 1


def _decoded(line: bytes) -> Record | bytes:
    try:
        record = decode(line)
    except DamagedRecord:
        return line
    return record if isinstance(record, Call | Checkpoint | Group) else line


def _make_another(call: Call, group: Group, random_: random.Random) -> str:
    """Change what is on the wire, in place."""
    how = random_.choice(("op", "dtype", "shape", "root" if call.root is not None else "op"))
    if how == "op":
        call.op = "all_gather" if call.op == "all_reduce" else "all_reduce"
    elif how == "dtype":
        call.dtype = "int8" if call.dtype != "int8" else "int16"
    elif how == "shape":
        call.shape = [1234]
    else:
        call.root = next(rank for rank in group.ranks if rank != call.root)
    return how


def _move(record: Record | bytes, call: Call, delta: tuple[int, int]) -> None:
    """Add a difference at a call to all digests of its stream that count it, in place."""

    def moved(digest: int, by: int, seq: int) -> int:
        return (digest + by * pow(BASE, seq - call.seq, PRIME)) % PRIME

    if isinstance(record, Call) and (record.group, record.device) == (call.group, call.device):
        if record.seq >= call.seq and record.digest is not None and record.program is not None:
            record.digest = moved(record.digest, delta[0], record.seq)
            record.program = moved(record.program, delta[1], record.seq)
    elif isinstance(record, Checkpoint):
        for row in record.streams:
            if row[:2] == [call.group, call.device] and row[2] >= call.seq and row[3] is not None:
                row[3] = moved(row[3], delta[0], row[2])
                row[4] = moved(row[4], delta[1], row[2])


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
