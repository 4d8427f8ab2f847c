"""Who came last, and by how much: stragglers, from the times at which ranks came to each row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from collectrace.align.case import Case
from collectrace.align.evidence import StreamKey
from collectrace.align.hosts import Clocks
from collectrace.align.track import Track

_MOST_TIMES: Final = 400_000
"""Times looked at, over all ranks of a stream; longer streams are sampled in stretches."""

_STRETCH: Final = 64
"""Rows per sample: delays are told by comparing a row with the one before."""


@dataclass(slots=True)
class Delay:
    """What one rank cost the others."""

    rank: int
    last: int = 0
    """Rows to which it came last."""
    total: int = 0
    """ns by which it fell behind the median of its group, added up as it happened."""
    sizes: list[int] = field(default_factory=list)
    """ns per time it fell behind and came last."""
    sites: Counter[str] = field(default_factory=Counter)
    """ns by the line it was late to."""


@dataclass(slots=True)
class Pace:
    """How a stream's ranks kept step."""

    stream: StreamKey
    rows: int
    """Rows that were compared."""
    span: int
    """ns of the job that they cover."""
    delays: dict[int, Delay]

    @property
    def total(self) -> int:
        """Nanoseconds that somebody fell behind."""
        return sum(delay.total for delay in self.delays.values())

    @property
    def slowest(self) -> Delay:
        """The rank that cost the others most."""
        return max(self.delays.values(), key=lambda delay: (delay.total, -delay.rank))


def paces(case: Case, clocks: Clocks) -> list[Pace]:
    """One for each stream of two ranks or more whose rows were read."""
    found = [
        _pace(case, clocks, stream, ranks)
        for stream, ranks in case.comparison.streams.items()
        if len(ranks) > 1 and all(case.log(rank) is not None for rank in ranks)
    ]
    return [pace for pace in found if pace is not None]


def _pace(case: Case, clocks: Clocks, stream: StreamKey, ranks: tuple[int, ...]) -> Pace | None:
    last = case.comparison.agreed.get(stream, 0)
    tracks = [case.evidence.logs[rank].track(stream) for rank in ranks]
    if any(not len(track) for track, _ in tracks):
        return None
    # After a resynchronised gap, rows are matched by number; a gap in one log leaves them out.
    starts = [track.find(max(1, _first(case, stream, ranks)) - shift) for track, shift in tracks]
    if any(start is None for start in starts):
        return None
    first = [start or 0 for start in starts]
    length = min(last, *(len(t) - s for (t, _), s in zip(tracks, first, strict=True)))
    pace = Pace(stream, 0, 0, {rank: Delay(rank) for rank in ranks})
    every = max(1, length * len(ranks) // _MOST_TIMES)
    for start in range(0, length, _STRETCH * every):
        before = [0.0] * len(ranks)
        begin = end = 0
        for i in range(start, min(start + _STRETCH, length)):
            rows = [(track, s + i) for (track, _), s in zip(tracks, first, strict=True)]
            if len({track.seq[at] + shift for (track, at), (_, shift) in
                    zip(rows, tracks, strict=True)}) != 1:  # fmt: skip
                return pace if pace.rows else None
            times = [
                clocks.when(rank, track.t[at])
                for rank, (track, at) in zip(ranks, rows, strict=True)
            ]
            middle = median(times)
            behind = [t - middle for t in times]
            slow = max(range(len(ranks)), key=lambda k: times[k])
            _count(pace.delays[ranks[slow]], behind[slow], before[slow], rows[slow])
            before = behind
            begin, end = begin or min(times), max(times)
            pace.rows += 1
        pace.span += max(0, end - begin)
    return pace


def _count(delay: Delay, behind: float, before: float, row: tuple[Track, int]) -> None:
    delay.last += 1
    # On asynchronous rows a rank that is late stays late: only what was added counts.
    added = round(behind - max(0.0, before))
    if added <= 0:
        return
    delay.total += added
    delay.sizes.append(added)
    track, at = row
    delay.sites[track.vocabulary.sights[track.look[at]].site] += added


def _first(case: Case, stream: StreamKey, ranks: tuple[int, ...]) -> int:
    return max(case.evidence.logs[rank].first_row(stream) for rank in ranks)
