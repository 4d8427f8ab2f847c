"""Translate the group names and numbers of one rank's file into those that all ranks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from collectrace.align.reading.keys import Key, StreamKey
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Activity, Alive, Call, Done, Exit, Group, Join, Stall, Unwaited

_Key = TypeVar("_Key", bound=Key)
_Named = TypeVar("_Named", Group, Join, Unwaited)
_Numbered = TypeVar("_Numbered", Activity, Done)
_Moment = TypeVar("_Moment", Alive, Stall, Exit)


@dataclass(frozen=True, slots=True)
class GroupNames:
    """The names of groups in one rank's file, and the names and numbers that all ranks share.

    Records are kept as in the file; every record that is returned has the shared ones.
    """

    shared: Mapping[str, str] = field(default_factory=dict)
    """Name in the file to the name that is unique in the run; a name without an entry is its
    own."""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """Name in the file to the number of calls of the group before this rank was traced."""

    def named(self, record: _Named) -> _Named:
        """Return a record that names a group, with the shared name."""
        name = self.shared.get(record.group or "")
        return record if name in (None, record.group) else replace(record, group=name)

    def numbered(self, record: _Numbered) -> _Numbered:
        """Return a record that names a row of a group, with the shared name and number."""
        local = record.group or ""
        name, shift = self.shared.get(local, local), self.shifts.get(local, 0)
        if name == local and not shift:
            return record
        seq = record.seq + shift if record.peer is None and record.seq is not None else record.seq
        return replace(record, group=name, seq=seq)

    def call(self, call: Call) -> Call:
        """Give a call its shared name and number, in place, and return it."""
        if call.op not in POINT_TO_POINT:
            call.seq += self.shifts.get(call.group, 0)
        call.group = self.shared.get(call.group, call.group)
        return call

    def moment(self, record: _Moment | None) -> _Moment | None:
        """Return a record of what threads are in, with shared names and numbers."""
        if record is None or not record.in_:
            return record
        return replace(record, in_=[self.numbered(activity) for activity in record.in_])

    def shift(self, key: Key) -> int:
        """Return the shift to add to the file's number of a row; messages have none."""
        return self.shifts.get(key.group, 0) if isinstance(key, StreamKey) else 0

    def key(self, key: _Key) -> _Key:
        """Return a stream or channel of the file, under its shared name."""
        return cast(_Key, key._replace(group=self.shared.get(key.group, key.group)))
