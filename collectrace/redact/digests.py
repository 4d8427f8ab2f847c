"""Compute the digests of streams after calls got other names.

The ``program`` digest of a call covers the part of a framework that issued it, such as the name of
a module. If parts are replaced, each digest has to be that of the new names. The chain is linear,
so the difference to the old digest follows from the lines. After lost lines, it is taken from a
rank that has them.
"""

from __future__ import annotations

import secrets
from array import array
from bisect import bisect_right
from typing import NamedTuple

from collectrace.signature import BASE, PRIME, retract


class Place(NamedTuple):
    """One stream in the log of one process."""

    log: str
    group: str
    device: str


class _Stretch:
    """Calls of a stream with consecutive numbers."""

    def __init__(self, seq: int, before: int) -> None:
        self.first = seq
        self.programs = array("Q", [before])
        """The digest before the first call, and after each."""
        self.changes = array("Q", [0])
        """What the new names add to the hash of each call."""
        self.differences = array("Q")
        """The difference of each digest to that of the new names."""

    @property
    def last(self) -> int:
        return self.first + len(self.programs) - 2

    def difference(self, seq: int, program: int) -> int | None:
        """Return the difference after the call with digest ``program``; None: it is not known."""
        at = seq - self.first + 1
        if not 0 <= at < len(self.differences) or self.programs[at] != program:
            return None
        return self.differences[at]


class Programs:
    """The ``program`` digests of all logs, as they are read."""

    def __init__(self) -> None:
        self._stretches: dict[Place, list[_Stretch]] = {}
        self._changed: set[tuple[str, str]] = set()
        """Groups and devices of the streams that have calls with other names."""

    def add(self, place: Place, seq: int, program: int, step: int, new_step: int) -> None:
        """Add a call; ``step`` and ``new_step``: what it adds under the old names and the new."""
        stretches = self._stretches.setdefault(place, [])
        if not stretches or seq != stretches[-1].last + 1:
            stretches.append(_Stretch(seq, retract(program % PRIME, step)))
        stretches[-1].programs.append(program % PRIME)
        stretches[-1].changes.append((new_step - step) % PRIME)
        if step != new_step:
            self._changed.add((place.group, place.device))

    def solve(self) -> set[str]:
        """Compute all differences; return the logs that have any."""
        found: list[_Stretch] = []
        logs: set[str] = set()
        of_streams: list[_Stretch] = []
        for place, stretches in self._stretches.items():
            if (place.group, place.device) in self._changed:
                logs.add(place.log)
                of_streams += stretches
        for one in sorted(of_streams, key=lambda one: one.first):
            difference = 0 if one.first == 1 else self._known(found, one.first - 1, one.programs[0])
            for change in one.changes:
                difference = (difference * BASE + change) % PRIME if one.differences else difference
                one.differences.append(difference)
            found.append(one)
        return logs

    def new(self, place: Place, seq: int, program: int) -> int | None:
        """Return the digest of the new names after a call; None: it is not known."""
        if (place.group, place.device) not in self._changed:
            return program
        stretches = self._stretches.get(place, [])
        at = bisect_right(stretches, seq + 1, key=lambda one: one.first)
        for one in (*stretches[max(0, at - 2) : at], *self._others(place)):
            difference = one.difference(seq, program)
            if difference is not None:
                return (program + difference) % PRIME
        return None

    def _others(self, place: Place) -> list[_Stretch]:
        """The stretches of this stream in other logs."""
        return [
            one
            for other, stretches in self._stretches.items()
            if other.log != place.log and other[1:] == place[1:]
            for one in stretches
        ]

    def _known(self, found: list[_Stretch], seq: int, program: int) -> int:
        """The difference after a call that another log has; one that fits nothing if none has."""
        for one in found:
            difference = one.difference(seq, program)
            if difference is not None:
                return difference
        return secrets.randbelow(PRIME)
