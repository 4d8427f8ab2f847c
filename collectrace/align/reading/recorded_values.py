"""The recorded variables of one rank's functions, within bounds of memory."""

from __future__ import annotations

from typing import Final, NamedTuple

from collectrace.records import Values, encode

_MOST: Final = 64
"""Records kept: a rank has few threads in calls, and there are four reasons to read them."""

_LARGEST: Final = 128 << 10
"""Bytes of one record, several times what the tracer writes."""


class Occasion(NamedTuple):
    """Which thread was read, and why."""

    thread: str
    reason: str
    """As in the record."""


class RecordedValues:
    """The latest ``values`` record of each thread and reason."""

    def __init__(self) -> None:
        self.latest: dict[Occasion, Values] = {}

    def append(self, record: Values) -> None:
        """Keep a record, unless a later one is known or it is too large."""
        key = Occasion(record.thread, record.reason)
        known = self.latest.get(key)
        if (known is not None and known.t > record.t) or len(encode(record)) > _LARGEST:
            return
        self.latest[key] = record
        if len(self.latest) > _MOST:
            del self.latest[min(self.latest, key=lambda one: self.latest[one].t)]
