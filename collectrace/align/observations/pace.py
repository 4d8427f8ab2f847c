"""Who came last, and by how much: stragglers, from the times at which ranks came to each row."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.ranks.clocks import Clocks
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.rows import Rows

_MOST_TIMES: Final = 400_000
"""Times looked at, over all ranks of a stream; longer streams are sampled in stretches."""

_STRETCH: Final = 64
"""Rows per sample: a delay is told by comparing a row with the one before."""


@dataclass(slots=True)
class Delay:
    """What one rank cost the others."""

    rank: int
    last: int = 0
    """Rows to which it came last."""
    total: int = 0
    """ns by which it fell behind most others of its group, added up as it happened."""
    sizes: list[int] = field(default_factory=list)
    """ns per time it fell behind and came last."""
    sites: Counter[str] = field(default_factory=Counter)
    """ns by the line it was late to."""

    @property
    def typical(self) -> float:
        """How late it was, ns, where it counted: the mean over the time that was lost."""
        return sum(ns * ns for ns in self.sizes) / self.total if self.total else 0.0

    @property
    def times(self) -> float:
        """How many delays of that size it makes: one for a single long one among many small."""
        return self.total / self.typical if self.total else 0.0


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

    @property
    def excess(self) -> int:
        """Nanoseconds by which it is slower than the next."""
        slow = self.slowest
        return slow.total - max(d.total for d in self.delays.values() if d is not slow)


def paces(case: Case) -> list[Pace]:
    """One for each stream of two ranks or more whose rows were read."""
    found = [
        _pace(case, stream, ranks)
        for stream, ranks in case.comparison.streams.items()
        if len(ranks) > 1 and all(case.log(rank) is not None for rank in ranks)
    ]
    return [pace for pace in found if pace.rows]


def _pace(case: Case, stream: StreamKey, ranks: tuple[int, ...]) -> Pace:
    all_rows = {rank: case.evidence.logs[rank].rows(stream) for rank in ranks}
    pace = Pace(stream, 0, 0, {rank: Delay(rank) for rank in ranks})
    common = list(_common(list(all_rows.values()), case.comparison.agreed.get(stream, 0)))
    total = sum(last - first + 1 for first, last in common)
    every = _STRETCH * max(1, total * len(ranks) // _MOST_TIMES)
    for first, last in common:
        for start in range(first, last + 1, every):
            _walk(pace, case.clocks, all_rows, start, min(start + _STRETCH, last))
    return pace


def _common(all_rows: Sequence[tuple[Rows, int]], agreed: int) -> Iterator[tuple[int, int]]:
    """The stretches of rows, first and last, that every rank's log holds."""
    held = [[(a + shift, b + shift) for a, b, _ in rows.runs()] for rows, shift in all_rows]
    position = [0] * len(held)
    while all(at < len(runs) for at, runs in zip(position, held, strict=True)):
        current = [runs[at] for at, runs in zip(position, held, strict=True)]
        first, last = max(a for a, _ in current), min(b for _, b in current)
        if first <= min(last, agreed):
            yield first, min(last, agreed)
        position[min(range(len(current)), key=lambda k: current[k][1])] += 1


def _walk(
    pace: Pace, clocks: Clocks, all_rows: Mapping[int, tuple[Rows, int]], start: int, last: int
) -> None:
    """Rows that follow each other; the first only says how the ranks stood before the second."""
    at = {rank: bisect_left(rows.seq, start - shift) for rank, (rows, shift) in all_rows.items()}
    times: dict[int, int] = {}
    held = False
    for i in range(last - start + 1):
        before = times
        times = {rank: clocks.when(rank, rows.t[at[rank] + i])
                 for rank, (rows, _) in all_rows.items()}  # fmt: skip
        slow = max(times, key=lambda rank: times[rank])
        rows, row = all_rows[slow][0], at[slow] + i
        if before:
            # A row that held everybody lets all go at once. From any other a rank that is late
            # goes on being late: only what was added counts.
            known = 0.0 if held else max(0.0, _behind(before, slow))
            _count(pace.delays[slow], round(_behind(times, slow) - known), rows, row)
            pace.rows += 1
            pace.span += max(0, max(times.values()) - max(before.values()))
        held = rows.holds(row)


def _behind(times: Mapping[int, int], rank: int) -> float:
    """By how many ns a rank came later than most others did."""
    mine = times[rank]
    return -median(t - mine for other, t in times.items() if other != rank)


def _count(delay: Delay, added: int, rows: Rows, row: int) -> None:
    delay.last += 1
    if added <= 0:
        return
    delay.total += added
    delay.sizes.append(added)
    delay.sites[rows.vocabulary.appearances[rows.appearance[row]].site] += added
