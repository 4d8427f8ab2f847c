"""One clock for all ranks, as well as their logs allow.

Processes of one host share its monotonic clock. Between hosts, wall clocks may be seconds apart,
and the collectives themselves say by how much: a rank that has come through a synchronous
collective knows that every other had issued it by then. Each such pair of rows bounds the offset
of two clocks from one side; both sides together leave an interval (the method of Duda et al.,
"Estimating global time in distributed systems", 1987, with bounds instead of regression).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from collectrace.align.case import Case
from collectrace.align.evidence import RankLog, StreamKey

_MOST_ROWS: Final = 4000
"""Rows looked at per stream, spread over its length."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What to add to a record's ``t`` per rank, and how far wrong that may be."""

    shifts: Mapping[int, int]
    uncertainty: int = 0
    """ns, between the two hosts that are known worst; 0 on one host."""
    apart: int = 0
    """ns by which wall clocks of hosts differed at most."""
    hosts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Hosts whose clocks nothing ties to the others'."""

    def when(self, rank: int, t: int) -> int:
        """A time of a rank on the common clock, ns."""
        return t + self.shifts[rank]

    def words(self) -> str:
        """How good it is, for a report."""
        if len(self.hosts) < 2:
            return "All ranks ran on one host, by one clock."
        if self.unknown:
            return f"Nothing ties the clock of {', '.join(self.unknown)} to the others'."
        return (
            f"Clocks of {len(self.hosts)} hosts, up to {self.apart / 1e6:.1f} ms apart, were "
            f"aligned by the collectives to within {self.uncertainty / 1e6:.2f} ms."
        )


@dataclass(slots=True)
class Bounds:
    """Of one host's clock against the reference host's: reference = host + offset."""

    low: float = float("-inf")
    high: float = float("inf")

    @property
    def known(self) -> bool:
        """Bounded from both sides, and not by contradictions."""
        return float("-inf") < self.low <= self.high < float("inf")


@dataclass(slots=True)
class _Host:
    name: str
    base: int
    """Wall clock minus monotonic clock, ns."""
    ranks: list[int] = field(default_factory=list)


def align(case: Case) -> Clocks:
    """The clocks of a run's ranks."""
    hosts = _hosts(case.evidence.logs)
    reference = hosts[0] if hosts else None
    shifts = {rank: host.base for host in hosts for rank in host.ranks}
    if reference is None or len(hosts) < 2:
        return Clocks(shifts, hosts=tuple(host.name for host in hosts))
    worst = apart = 0
    unknown = []
    for host in hosts[1:]:
        bounds = _bounds(case, reference, host)
        if not bounds.known:
            unknown.append(host.name)
            continue
        offset = round((bounds.low + bounds.high) / 2)
        worst = max(worst, round((bounds.high - bounds.low) / 2))
        apart = max(apart, abs(offset))
        for rank in host.ranks:
            shifts[rank] += offset
    return Clocks(shifts, worst, apart, tuple(host.name for host in hosts), tuple(unknown))


def _hosts(logs: Mapping[int, RankLog]) -> list[_Host]:
    by_name: dict[str, list[int]] = {}
    for rank, log in sorted(logs.items()):
        by_name.setdefault(log.header.host, []).append(rank)
    return [
        # Wall and monotonic clock are read one after the other: the median forgets a slow one.
        _Host(name, round(median(logs[r].header.wall - logs[r].header.t for r in ranks)), ranks)
        for name, ranks in by_name.items()
    ]


def _bounds(case: Case, reference: _Host, host: _Host) -> Bounds:
    bounds = Bounds()
    for stream, members in case.comparison.streams.items():
        ours = [r for r in reference.ranks if r in members]
        theirs = [r for r in host.ranks if r in members]
        if ours and theirs:
            here = _rows(case, stream, ours, reference.base)
            there = _rows(case, stream, theirs, host.base)
            for n in here.keys() & there.keys():
                first, then = here[n], there[n]
                # Whoever comes out of row n comes out after everybody has come in. With
                # offset = reference - host: in_there + offset <= out_here, and
                # in_here <= out_there + offset.
                bounds.high = min(bounds.high, first[1] - then[0])
                bounds.low = max(bounds.low, first[0] - then[1])
    return bounds


def _rows(
    case: Case, stream: StreamKey, ranks: Sequence[int], base: int
) -> dict[int, tuple[int, int]]:
    """Row to (the latest time a rank came to it, the earliest that one was past it)."""
    found: dict[int, tuple[int, int]] = {}
    last = case.comparison.agreed.get(stream, 0)
    step = max(1, last // _MOST_ROWS)
    for rank in ranks:
        track, shift = case.evidence.logs[rank].track(stream)
        for at in range(0, len(track.seq) - 1, step):
            n = track.seq[at] + shift
            call = track.vocabulary.examples[track.meaning[at]]
            if n >= last or call.async_ or track.seq[at + 1] != track.seq[at] + 1:
                continue
            came, past = track.t[at] + base, track.t[at + 1] + base
            known = found.get(n)
            found[n] = (came, past) if known is None else (max(known[0], came), min(known[1], past))
    return found
