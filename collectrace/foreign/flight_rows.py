"""Read a dump's calls fast: each as the part that it shares with others, and its own numbers.

A large job leaves half a million calls, so the cost of one matters. torch's pickler writes the
calls of a loop with equal bytes, except for a few numbers. A call is split at these numbers. The
pieces between them are built once, and then recognised by their bytes. If a piece is not a sequence
of whole opcodes that give the keys in their order, the call is built by itself. A regular
expression finds the positions once, and they are tried first for the next call.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from collectrace.foreign.errors import NotReadable
from collectrace.foreign.plain_pickle import Machine, check_size

Entry = dict[str, Any]


class Row(NamedTuple):
    """One entry of a ring."""

    entry: Entry
    """The first entry with equal pieces. Its numbers are not those of this row."""
    seq: Any
    created: Any
    started: Any
    """May be left out if the call has completed."""
    completed: Any


_NUMBERS: Final = ("collective_seq_id", "time_created_ns", "time_discovered_started_ns",
                   "time_discovered_completed_ns")  # fmt: skip
"""The numbers of a row. Other numbers of an entry differ as well, and are not used."""

_IGNORED: Final = ("record_id", "p2p_seq_id", "op_id", "duration_ms")

_NUMBER: Final = rb"(?:\x8a\x08.{8}|K.|M..|J.{4}|N|G.{8})"

_LONG1: Final = 0x8A
_VALUES: Final = {_LONG1: "q", 0x4B: "B", 0x4D: "H", 0x4A: "i"}
"""How ``struct`` calls what follows an opcode that puts a number on the stack."""
_CUT: Final = ("collective_seq_id", "time_created_ns", "time_discovered_completed_ns")
"""The numbers of a call that has completed: when it began is of no use then."""
_START: Final = b"X\x07\0\0\0entries"
_PUT: Final = re.compile(rb"(?:q.|r.{4})?\]\(", re.DOTALL)

_MOST_KNOWN: Final = 50_000
_NEXT: Final = frozenset((b"}", b"e"))
"""What follows an entry: the next one, or the end of their list."""

_MOST_LAYOUTS: Final = 16
_MOST_SHAPES: Final = 1_000
_MOST_TRIED: Final = 8
"""Shapes that are tried before the regular expression, which costs as much as a dozen."""


def of_entries(entries: Iterable[Entry]) -> list[Row]:
    """Return rows of entries that have been parsed."""
    return [
        Row(
            entry, get("collective_seq_id", get("seq_id")), get("time_created_ns"),
            get("time_discovered_started_ns"), get("time_discovered_completed_ns"),
        )
        for entry in entries
        for get in (entry.get,)
    ]  # fmt: skip


def read(data: bytes) -> tuple[dict[str, Any], list[Row]] | None:
    """Read a pickled dump: its other parts, and its entries; None: torch did not write it so.

    Raises:
        NotReadable: it holds more than plain data.

    """
    check_size(data)
    at = data.find(_START)
    opened = _PUT.match(data, at + len(_START)) if at > 0 else None
    if opened is None or data[:4] != b"\x80\x02}(":
        return None
    try:
        machine = Machine(data[:at] + b"u.")
        head = machine.run()
        rows, end = _Entries(data, machine.memo).rows(opened.end())
        # Further keys of the dump, and its end, follow the entries.
        rest = Machine(b"\x80\x02}(" + data[end + 1 :], machine.memo).run()
    except (IndexError, KeyError):
        return None
    if head.__class__ is not dict or rest.__class__ is not dict:
        return None
    return head | rest, rows


class _Entries:
    """The entries of one dump, while they are read."""

    def __init__(self, data: bytes, memo: dict[int, Any]) -> None:
        self._data = data
        self._memo = memo
        self._machine = Machine(data, memo)
        self._layouts: dict[tuple[str, ...], _Layout | None] = {}

    def rows(self, at: int) -> tuple[list[Row], int]:
        """The rows from an offset on, and where the list of entries ends."""
        found = list[Row]()
        layout: _Layout | None = None
        while True:
            if layout is not None:
                at = self._alike(layout, at, found)
            if self._data[at] != 0x7D:  # }
                break
            whole, at = self._machine.one(at)
            found += of_entries((whole,))
            keys = tuple(whole)
            if keys not in self._layouts and len(self._layouts) < _MOST_LAYOUTS:
                self._layouts[keys] = _layout(keys, self._memo)
            layout = self._layouts.get(keys)
        if self._data[at] != 0x65:  # e
            raise NotReadable("is damaged: its entries do not end")
        return found, at

    def _alike(self, layout: _Layout, at: int, found: list[Row]) -> int:
        """Take entries of one layout, as many as follow each other; where they end."""
        data, append, new = self._data, found.append, tuple.__new__
        lately: list[_Shape] = []
        after: dict[int, list[_Shape]] = {}
        """The same, that first which came after a certain entry last."""
        entry: Entry | None = None
        row: tuple[Any, ...]
        while True:
            before = id(entry)
            shapes = after.get(before, lately)
            for shape in shapes:
                end = at + shape.size
                if data[end : end + 1] not in _NEXT:
                    continue
                cut = shape.unpack(data, at)
                entry = shape.known.get(shape.between(cut))
                if entry is not None:
                    seq, created, completed = shape.numbers(cut)
                    # Nearly always torch writes it so; a completed call has started.
                    row = entry, seq, created, None, completed
                    append(new(Row, row))
                    at = end
                    if shape is not shapes[0]:
                        after[before] = _first(shape, shapes)
                    break
            else:
                alike = layout.match(data, at)
                entry = None if alike is None else layout.entry(alike, self._memo)
                if alike is None or entry is None:
                    return at
                append(Row(entry, *(_number(alike[name]) for name in _NUMBERS)))
                if (fits := layout.shape(alike, entry)) is not None:
                    lately = _first(fits, lately)[:_MOST_TRIED]
                    after.clear()
                at = alike.end()


@dataclass(slots=True)
class _Shape:
    """Entries of one layout with pieces of equal lengths: fixed positions split them all."""

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    between: Callable[[tuple[Any, ...]], tuple[bytes, ...]]
    """Returns the pieces that are not the value of a number."""
    numbers: Callable[[tuple[Any, ...]], tuple[int, int, int]]
    """Returns the values of number, creation and completion."""
    known: dict[tuple[bytes, ...], Entry] = field(default_factory=dict)


def _first(shape: _Shape, shapes: list[_Shape]) -> list[_Shape]:
    return [shape, *(one for one in shapes if one is not shape)]


@dataclass(slots=True)
class _Layout:
    """How entries with certain keys look."""

    match: Callable[[bytes, int], re.Match[bytes] | None]
    between: Callable[[re.Match[bytes]], tuple[bytes, ...]]
    """Returns the groups of a match that are between numbers."""
    numbers: list[str]
    """The groups that are numbers, in their order."""
    wanted: list[str]
    """The keys with values between the numbers."""
    known: dict[tuple[bytes, ...], Entry | None] = field(default_factory=dict)
    shapes: dict[str, _Shape] = field(default_factory=dict)
    """By what is cut, in the words of ``struct``."""

    def entry(self, alike: re.Match[bytes], memo: Mapping[int, Any]) -> Entry | None:
        """Return the entry between the numbers; None: it is incomplete, or uses the memo."""
        key = self.between(alike)
        if key not in self.known:
            if len(self.known) > _MOST_KNOWN:
                self.known.clear()
            self.known[key] = self._learn(key, memo)
        return self.known[key]

    def _learn(self, key: tuple[bytes, ...], memo: Mapping[int, Any]) -> Entry | None:
        found: Entry = {}
        try:
            for part in key:
                values = Machine(part, MappingProxyType(memo)).values()
                found.update(zip(values[::2], values[1::2], strict=True))
            is_whole = list(found) == self.wanted
        except (NotReadable, IndexError, KeyError, TypeError, ValueError):
            is_whole = False
        return found if is_whole else None

    def shape(self, alike: re.Match[bytes], entry: Entry) -> _Shape | None:
        """The shape of such an entry, which knows it from now on; None: its numbers are odd."""
        cuts, at, count = ["<"], alike.start(), 0
        pieces, numbers = list[int](), dict[str, int]()
        for name in self.numbers:
            start, end = alike.span(name)
            code = alike.string[start]
            value = _VALUES.get(code, "")
            if name in _CUT and not value:
                return None
            start += 2 if code == _LONG1 else 1
            if start == end:
                continue
            pieces.append(count)
            cuts.append(f"{start - at}s")
            count, at = count + 1, end
            if name in _CUT:
                numbers[name] = count
                count += 1
                cuts.append(value)
            else:
                cuts.append(f"{end - start}x")
        pieces.append(count)
        cuts.append(f"{alike.end() - at}s")
        cut = "".join(cuts)
        shape = self.shapes.get(cut)
        if shape is None:
            if len(self.shapes) >= _MOST_SHAPES:
                return None
            by = struct.Struct(cut)
            shape = self.shapes[cut] = _Shape(
                by.unpack_from, by.size, itemgetter(*pieces),
                itemgetter(*(numbers[name] for name in _CUT)),
            )  # fmt: skip
        if len(shape.known) < _MOST_KNOWN:
            shape.known[shape.between(shape.unpack(alike.string, alike.start()))] = entry
        return shape


def _layout(keys: tuple[str, ...], memo: Mapping[int, Any]) -> _Layout | None:
    """Return the layout of entries with these keys; None: they lack a number that is needed."""
    places = {text: n for n, text in memo.items() if text.__class__ is str}
    if not {*_NUMBERS} <= {*keys} <= places.keys():
        return None
    parts, between, numbers = [rb"\}\("], list[str](), list[str]()
    is_open = False
    for key in keys:
        n = places[key]
        get = re.escape(b"h%c" % n if n < 256 else b"j" + n.to_bytes(4, "little"))
        if key in _NUMBERS or key in _IGNORED:
            parts.append((b")" if is_open else b"") + get + b"(?P<%b>%b)" % (key.encode(), _NUMBER))
            numbers.append(key)
            is_open = False
        elif not is_open:
            between.append(f"between_{key}" if key.isidentifier() else "")
            parts.append(b"(?P<%b>%b.*?" % (between[-1].encode(), get))
            is_open = True
    parts.append(rb")u" if is_open else rb"u")
    if len(between) < 2 or not all(between):
        return None
    return _Layout(
        re.compile(b"".join(parts), re.DOTALL).match,
        lambda match: match.group(*between),
        numbers,
        [key for key in keys if key not in _NUMBERS and key not in _IGNORED],
    )


def _number(token: bytes) -> int | None:
    """The number that an opcode puts on the stack."""
    code = token[0]
    if code not in _VALUES:
        return None
    number: int = struct.unpack_from(f"<{_VALUES[code]}", token, 2 if code == _LONG1 else 1)[0]
    return number
