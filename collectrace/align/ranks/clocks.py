"""Put the clocks of all ranks on one time scale, as far as their logs allow.

Processes of one host share its monotonic clock. Between hosts, wall clocks may be seconds apart.
The collectives show the difference: a rank that returned from a synchronous collective knows that
every other rank had issued it by then. Each such pair of calls bounds the offset of two clocks from
one side. Both sides together give an interval (the method of Duda et al., "Estimating global time
in distributed systems", 1987, with bounds instead of regression).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

from collectrace.align.matching.comparison import Comparison
from collectrace.align.reading.evidence import RankLog, StreamKey

_MOST_ROWS: Final = 1000
"""Calls examined per stream, spread over its length."""

_SAME_CLOCK: Final = 1_000_000_000
"""ns between the starts of the monotonic clock that processes of one host record: nobody sets a
clock while a job starts."""


Clock = Callable[[int], int]
"""Converts a time of one rank's own clock to the shared clock, ns."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The shift to add to a record's ``t`` per rank, and its possible error."""

    shifts: Mapping[int, int]
    uncertainty: int = 0
    """ns, for the pair of hosts with the largest error; 0 on one host."""
    apart: int = 0
    """ns by which wall clocks of hosts differed at most."""
    hosts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Hosts without a known relation to the other clocks."""

    def when(self, rank: int, t: int) -> int:
        """Return a time of a rank's own clock on the shared clock, ns since 1970."""
        return t + self.shifts[rank]

    def of(self, rank: int) -> Clock:
        """Return :meth:`when` for one rank; the rank must have left a log."""
        return partial(self.when, rank)


@dataclass(slots=True)
class Bounds:
    """Bounds of one host's clock against the reference host's: reference = host + offset."""

    low: float = float("-inf")
    high: float = float("inf")

    @property
    def known(self) -> bool:
        """Whether there are bounds on both sides."""
        return self.low > float("-inf") and self.high < float("inf")


@dataclass(slots=True)
class _Host:
    name: str
    base: int
    """Wall clock minus monotonic clock, ns."""
    ranks: list[int]


def estimate(comparison: Comparison) -> Clocks:
    """Return the clocks of a run's ranks."""
    hosts = _hosts(comparison.evidence.logs)
    shifts = {rank: host.base for host in hosts for rank in host.ranks}
    names = tuple(host.name for host in hosts)
    if len(hosts) < 2:
        return Clocks(shifts, hosts=names)
    reference = hosts[0]
    here = _rows(comparison, reference)
    worst = apart = 0
    unknown = []
    for host in hosts[1:]:
        bounds = _bounds(here, _rows(comparison, host))
        if not bounds.known:
            unknown.append(host.name)
            continue
        # If clocks drifted, the bounds contradict each other by that much: that is the error.
        offset = round((bounds.low + bounds.high) / 2)
        worst = max(worst, round(abs(bounds.high - bounds.low) / 2))
        apart = max(apart, abs(offset))
        for rank in host.ranks:
            shifts[rank] += offset
    return Clocks(shifts, worst, apart, names, tuple(unknown))


def _hosts(logs: Mapping[int, RankLog]) -> list[_Host]:
    """Return groups of ranks that share a clock, the one with the lowest rank first.

    Machines may share a name (containers, ``localhost``): their monotonic clocks distinguish them.
    """
    by_name: dict[str, list[tuple[int, int]]] = {}
    for rank, log in logs.items():
        by_name.setdefault(log.header.host, []).append((log.header.wall - log.header.t, rank))
    hosts = []
    for name, clocks in by_name.items():
        clocks.sort()
        cuts = [
            i for i, (a, b) in enumerate(pairwise(clocks), 1) if b[0] - a[0] > _SAME_CLOCK
        ]  # fmt: skip
        for low, high in pairwise([0, *cuts, len(clocks)]):
            # Wall and monotonic clock are read one after the other: the median ignores a slow read.
            base = round(median(base for base, _ in clocks[low:high]))
            hosts.append(_Host(name, base, sorted(rank for _, rank in clocks[low:high])))
    return sorted(hosts, key=lambda host: host.ranks[0])


_Rows = Mapping[StreamKey, Mapping[int, tuple[int, int]]]


def _bounds(here: _Rows, there: _Rows) -> Bounds:
    """Return the bounds of a host's clock from the calls that it shares with another host."""
    bounds = Bounds()
    for stream in here.keys() & there.keys():
        for n in here[stream].keys() & there[stream].keys():
            first, then = here[stream][n], there[stream][n]
            # A rank that finished row n has seen every rank issue it. With offset = here - there:
            # issued there + offset <= finished here, and issued here <= finished there + offset.
            bounds.high = min(bounds.high, first[1] - then[0])
            bounds.low = max(bounds.low, first[0] - then[1])
    return bounds


def _rows(comparison: Comparison, host: _Host) -> _Rows:
    """Return per stream and row the latest issue by a rank, and the earliest time after it."""
    found: dict[StreamKey, dict[int, tuple[int, int]]] = {}
    for rank in host.ranks:
        log = comparison.evidence.logs[rank]
        for stream in log.last_seq:
            if rank not in comparison.streams.get(stream, ()):
                continue
            last = comparison.agreed.get(stream, 0)
            step = max(1, last // _MOST_ROWS)
            rows = found.setdefault(stream, {})
            held, shift = log.rows(stream)
            for first, end, index in held.runs():
                # A row counts only if the next one was read, too.
                start = max(step, -(-(first + shift) // step) * step)
                for n in range(start, min(last, end + shift), step):
                    at = index + n - shift - first
                    if not held.holds(at):
                        continue
                    came, past = held.t[at] + host.base, held.t[at + 1] + host.base
                    known = rows.get(n, (came, past))
                    rows[n] = max(known[0], came), min(known[1], past)
    return found
