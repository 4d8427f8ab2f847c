"""Find streams, coalesced groups and losses by the sequence numbers of a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collectrace.foreign import flight_calls
from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_dump import number
from collectrace.foreign.flight_rows import Row

Entry = dict[str, Any]

Numbered = tuple[str, int]
"""A group's name, and the sequence number of a call of it."""


@dataclass(slots=True)
class Ring:
    """The rows of one dump, in the order in which they were recorded."""

    rows: Sequence[Row]
    bundles: dict[Numbered, list[Row]] = field(default_factory=dict)
    """Coalesced groups: several entries with one number."""
    firsts: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By group, the device of its stream and the first number that the ring holds."""
    backends: dict[str, str] = field(default_factory=dict)
    """By group."""
    described: dict[str, str] = field(default_factory=dict)
    """The descriptions of groups, by name."""

    def __post_init__(self) -> None:
        lasts: dict[str, int] = {}
        names: dict[int, str | None] = {}
        is_plain = True
        for row in self.rows:
            entry, seq = row.entry, row.seq
            name = names.get(id(entry), "")
            if name == "":
                name = names[id(entry)] = self.stream(entry)
            if name is None:
                continue
            if seq.__class__ is not int:
                seq = number(seq)
                if seq is None:
                    continue
            if seq <= lasts.get(name, 0):
                is_plain = False
            elif name not in lasts:
                self.firsts[name] = flight_calls.device(self.backends.get(name, "")), seq
            lasts[name] = seq
        if is_plain:
            return
        found: dict[Numbered, list[Row]] = {}
        for row in self.rows:
            name, n = names.get(id(row.entry)), number(row.seq)
            if name is not None and n is not None:
                found.setdefault((name, n), []).append(row)
        self.bundles = {key: those for key, those in found.items() if len(those) > 1}

    @property
    def is_whole(self) -> bool:
        """Return whether the ring holds every call since the process began or it was reset."""
        if not self.rows:
            return True
        first = self.rows[0]
        record = number(first.entry.get("record_id"))
        return record == 0 if record is not None else number(first.seq) == 1

    def stream(self, entry: Entry) -> str | None:
        """Return the group of a collective; None: the entry is not one."""
        try:
            name = group_name(entry)
            self.backends.setdefault(name, flight_calls.split(entry.get("profiling_name"))[0])
        except NotReadable:
            return None
        group = entry.get("process_group")
        if group is not None and len(group) > 1 and isinstance(group[1], str):
            self.described.setdefault(name, group[1])
        return None if flight_calls.is_message(entry) else name

    def cut(self) -> set[Numbered]:
        """Return the coalesced group at the start of the ring, which may be incomplete."""
        row = self.rows[0]
        name, seq = self.stream(row.entry), number(row.seq)
        if name is None or seq is None:
            return set()
        is_end = flight_calls.is_end(row.entry)
        return {(name, seq)} if (name, seq) in self.bundles or is_end else set()


def group_name(entry: Entry) -> str:
    """Return the name of an entry's group.

    Raises:
        NotReadable: it has none.

    """
    group = entry.get("process_group")
    if group.__class__ in (tuple, list) and group and isinstance(group[0], str):
        return str(group[0])[:1000]
    if group is None:
        pg_id = number(entry.get("pg_id"))  # before torch 2.4
        if pg_id is not None:
            return str(pg_id)
    raise NotReadable("an entry without a process group")
