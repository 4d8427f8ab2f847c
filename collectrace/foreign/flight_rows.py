"""A dump's calls, each as what it shares with others and its own numbers.

A large job leaves half a million calls, and what one costs counts. torch's pickler writes the calls
of a loop alike byte for byte, but for a few numbers: a call is cut at these, and what lies between
is built once, and from then on known by its bytes. That rests on nothing but the bytes: what lies
between must be whole opcodes that give the keys in their order, or the call is built by itself.
"""

from __future__ import annotations

import re
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
    """The first that was alike; its numbers are those of that one."""
    seq: Any
    created: Any
    started: Any
    """Of a call that has completed it may be left out."""
    completed: Any


_NUMBERS: Final = ("collective_seq_id", "time_created_ns", "time_discovered_started_ns",
                   "time_discovered_completed_ns")  # fmt: skip
"""What a row bears itself. Other numbers of an entry differ as well, and nobody asks for them."""

_IGNORED: Final = ("record_id", "p2p_seq_id", "op_id", "duration_ms")

_NUMBER: Final = rb"(?:\x8a\x08.{8}|K.|M..|J.{4}|N|G.{8})"

_LONG1: Final = 0x8A
_BININT2: Final = 0x4D
_START: Final = b"X\x07\0\0\0entries"
_PUT: Final = re.compile(rb"(?:q.|r.{4})?\]\(", re.DOTALL)

_MOST_KNOWN: Final = 50_000
_MOST_LAYOUTS: Final = 16


def of_entries(entries: Iterable[Entry]) -> list[Row]:
    """Entries as they are."""
    return [
        Row(
            entry, get("collective_seq_id", get("seq_id")), get("time_created_ns"),
            get("time_discovered_started_ns"), get("time_discovered_completed_ns"),
        )
        for entry in entries
        for get in (entry.get,)
    ]  # fmt: skip


def read(data: bytes) -> tuple[dict[str, Any], list[Row]] | None:
    """A pickle of a dump: all but its entries, and these; None: it is not as torch writes it.

    Raises:
        NotReadable: it holds what no plain data holds.

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
        # What follows the entries are further keys of the dump, and its end.
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
        data, known = self._data, layout.known
        match, between, numbers = layout.match, layout.between, layout.numbers
        append, new, number = found.append, tuple.__new__, int.from_bytes
        row: tuple[Any, ...]
        while (alike := match(data, at)) is not None:
            parts = alike.groups()
            key = between(parts)
            entry = known.get(key)
            if entry is None:
                entry = None if key in known else layout.learn(key, self._memo)
                if entry is None:
                    break
            seq, created, started, completed = numbers(parts)
            if created[0] == completed[0] == _LONG1:
                # What torch writes, nearly always; and who has completed had started.
                row = (
                    entry, seq[1] | seq[2] << 8 if seq[0] == _BININT2 else _number(seq),
                    number(created[2:], "little"), None, number(completed[2:], "little"),
                )  # fmt: skip
            else:
                row = entry, _number(seq), _number(created), _number(started), _number(completed)
            append(new(Row, row))
            at = alike.end()
        return at


@dataclass(slots=True)
class _Layout:
    """How entries with certain keys look."""

    match: Callable[[bytes, int], re.Match[bytes] | None]
    numbers: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
    """Of the groups of a match those of :data:`_NUMBERS`."""
    between: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
    wanted: list[str]
    """The keys whose values lie between."""
    known: dict[tuple[bytes, ...], Entry | None] = field(default_factory=dict)

    def learn(self, key: tuple[bytes, ...], memo: Mapping[int, Any]) -> Entry | None:
        """Build what lies between the numbers; None: it is not whole, or puts something aside."""
        if len(self.known) > _MOST_KNOWN:
            self.known.clear()
        found: Entry = {}
        try:
            for part in key:
                values = Machine(part, MappingProxyType(memo)).values()
                found.update(zip(values[::2], values[1::2], strict=True))
            is_whole = list(found) == self.wanted
        except (NotReadable, IndexError, KeyError, TypeError, ValueError):
            is_whole = False
        entry = self.known[key] = found if is_whole else None
        return entry


def _layout(keys: tuple[str, ...], memo: Mapping[int, Any]) -> _Layout | None:
    """What entries with these keys look like; None: they lack a number that is needed."""
    places = {text: n for n, text in memo.items() if text.__class__ is str}
    if not {*_NUMBERS} <= {*keys} <= places.keys():
        return None
    parts, numbers, between, groups = [rb"\}\("], dict[str, int](), list[int](), 0
    is_open = False
    for key in keys:
        n = places[key]
        get = re.escape(b"h%c" % n if n < 256 else b"j" + n.to_bytes(4, "little"))
        is_number = key in _NUMBERS or key in _IGNORED
        if is_open and is_number:
            parts.append(rb")")
            is_open = False
        if key in _NUMBERS:
            numbers[key], groups = groups, groups + 1
            parts.append(get + rb"(" + _NUMBER + rb")")
        elif is_number:
            parts.append(get + _NUMBER)
        elif not is_open:
            between.append(groups)
            groups += 1
            parts.append(rb"(" + get + rb".*?")
            is_open = True
    parts.append(rb")u" if is_open else rb"u")
    if len(between) < 2:
        return None
    return _Layout(
        re.compile(b"".join(parts), re.DOTALL).match,
        itemgetter(*(numbers[name] for name in _NUMBERS)),
        itemgetter(*between),
        [key for key in keys if key not in _NUMBERS and key not in _IGNORED],
    )


def _number(token: bytes) -> int | None:
    """The number that an opcode puts on the stack."""
    code = token[0]
    if code == 0x8A:
        return int.from_bytes(token[2:], "little", signed=True)
    if code == 0x4B:
        return token[1]
    if code == 0x4D:
        return token[1] | token[2] << 8
    return int.from_bytes(token[1:], "little", signed=True) if code == 0x4A else None
