"""Other values for the fields of a log: of other types, extremes, those of other lines."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from collectrace import ops
from collectrace.records import KINDS
from tools.fuzz_parts.log import Log, lines_of

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
        return random_.choice(
            (inner[:at], inner[::-1], inner + inner[at:], inner[at:], [*inner, 7])
        )
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
