"""List the calls of one rank in program order, over all its streams and channels."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from collectrace.align.reading.evidence import Key, RankLog
from collectrace.align.reading.vocabulary import CallPlace

_MOST: Final = 1_000
"""Latest calls of each stream or channel that are read."""


class Entry(NamedTuple):
    """A call of a rank, and its place in the program."""

    t: int
    """When it was issued, ns of the rank's clock."""
    key: Key
    seq: int
    place: CallPlace
    beside: bool
    """Whether a thread other than the main one issued it."""

    @property
    def stack(self) -> tuple[str, ...]:
        """The user's frames above it, innermost first."""
        return self.place[1]


def calls_before(log: RankLog, t: int | None = None) -> list[Entry]:
    """Return the calls that a rank issued before ``t``, as far as they were read.

    ``t``: ns of the rank's clock; None: return all calls.
    """
    found: list[Entry] = []
    for key in log.counts:
        rows, shift = log.rows(key)
        stop = len(rows) if t is None else bisect_left(rows.t, t)
        for n in range(max(0, stop - _MOST), stop):
            seen = log.vocabulary.appearances[rows.appearance[n]]
            found.append(Entry(rows.t[n], key, rows.seq[n] + shift, seen.place, seen.beside))
    return sorted(found, key=lambda one: one.t)
