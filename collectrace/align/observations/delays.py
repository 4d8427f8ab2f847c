"""Measure how much later than the others each rank reached the calls of a stream."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from collectrace import roles
from collectrace.align.judging.case import Case
from collectrace.align.ranks.clocks import Clocks
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.rows import Rows

_MOST_TIMES: Final = 400_000
"""Times that are compared, over all ranks of a stream; longer streams are sampled in stretches."""

_LEAST: Final = 8
"""Least rows per sample, however many ranks there are."""

_STRETCH: Final = 64
"""Rows per sample: adjacent ones, because a delay is measured against the row before."""


@dataclass(slots=True)
class RankDelays:
    """How often and how long one rank kept the others of its group waiting."""

    rank: int
    last: int = 0
    """Rows that it reached last."""
    total: int = 0
    """ns by which it fell behind most others of its group, over all rows that it reached last."""
    sizes: list[int] = field(default_factory=list)
    """The delay that each of those rows added, ns; rows that added nothing are omitted."""
    sites: Counter[str] = field(default_factory=Counter)
    """ns by the line of the delayed call."""

    @property
    def typical(self) -> float:
        """The typical delay, ns: the mean of its delays, each weighted by itself."""
        return sum(ns * ns for ns in self.sizes) / self.total if self.total else 0.0

    @property
    def times(self) -> float:
        """The total in delays of the typical size: 1 for one long delay among many short ones."""
        return self.total / self.typical if self.total else 0.0


@dataclass(slots=True)
class StreamDelays:
    """The delays of the ranks of one stream."""

    stream: StreamKey
    by_rank: dict[int, RankDelays]
    rows: int = 0
    """Rows that were compared."""
    span: int = 0
    """ns of the job that they cover."""

    @property
    def total(self) -> int:
        """The delays of all ranks, ns."""
        return sum(delays.total for delays in self.by_rank.values())

    @property
    def slowest(self) -> RankDelays:
        """The delays of the rank that kept the others waiting longest."""
        return max(self.by_rank.values(), key=lambda delays: (delays.total, -delays.rank))

    @property
    def excess(self) -> int:
        """The difference between the slowest rank's delays and those of the next, ns."""
        slow = self.slowest
        return slow.total - max(d.total for d in self.by_rank.values() if d is not slow)


def of_streams(case: Case) -> list[StreamDelays]:
    """Return the delays of each stream with several ranks and comparable rows."""
    found = [
        _of_stream(case, stream, ranks)
        for stream, ranks in case.comparison.streams.items()
        if len(ranks) > 1 and all(case.log(rank) is not None for rank in ranks)
    ]
    return [one for one in found if one.rows]


def _of_stream(case: Case, stream: StreamKey, ranks: tuple[int, ...]) -> StreamDelays:
    all_rows = {rank: case.evidence.logs[rank].rows(stream) for rank in ranks}
    found = StreamDelays(stream, {rank: RankDelays(rank) for rank in ranks})
    common = list(_common(list(all_rows.values()), case.comparison.agreed.get(stream, 0)))
    total = sum(last - first + 1 for first, last in common)
    # With very many ranks one whole stretch would be too much.
    length = max(_LEAST, min(_STRETCH, _MOST_TIMES // (len(ranks) * max(1, len(common)))))
    every = length * max(1, total * len(ranks) // _MOST_TIMES)
    for first, last in common:
        for start in range(first, last + 1, every):
            _add_stretch(found, case.clocks, all_rows, start, min(start + length, last))
    return found


def _common(all_rows: Sequence[tuple[Rows, int]], agreed: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of rows (first, last), up to ``agreed``, that every rank's log holds."""
    held = [[(a + shift, b + shift) for a, b, _ in rows.runs()] for rows, shift in all_rows]
    position = [0] * len(held)
    while all(at < len(runs) for at, runs in zip(position, held, strict=True)):
        current = [runs[at] for at, runs in zip(position, held, strict=True)]
        first, last = max(a for a, _ in current), min(b for _, b in current)
        if first <= min(last, agreed):
            yield first, min(last, agreed)
        # Advance all at once: ranks with the same calls have runs with the same ends.
        position = [at + (b == last) for at, (_, b) in zip(position, current, strict=True)]


def _add_stretch(
    found: StreamDelays,
    clocks: Clocks,
    all_rows: Mapping[int, tuple[Rows, int]],
    start: int,
    last: int,
) -> None:
    """Add the delays of rows ``start + 1`` .. ``last``, each against the row before it."""
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
            # A row that held all ranks releases them together, and so does the end of a backward
            # that waits for its gradients. After any other row, a late rank stays late, so only the
            # added delay counts.
            known = 0.0 if held else max(0.0, _behind(before, slow))
            _add_row(found.by_rank[slow], round(_behind(times, slow) - known), rows, row)
            found.rows += 1
            found.span += max(0, max(times.values()) - max(before.values()))
        held = rows.holds(row) or (found.stream.device == "cpu" and _ends_backward(rows, row))


def _ends_backward(rows: Rows, row: int) -> bool:
    """Return whether a row is the last gradient bucket of an iteration, which its backward awaits.

    On a device, the backward only orders streams.
    """
    following = rows.iteration[row + 1 : row + 2]
    if not following or following[0] == rows.iteration[row]:
        return False
    return roles.of(rows.vocabulary.appearances[rows.appearance[row]].role).is_bucket


def _behind(times: Mapping[int, int], rank: int) -> float:
    """Return by how many ns a rank was later than most others; negative if it was earlier."""
    mine = times[rank]
    return -median(t - mine for other, t in times.items() if other != rank)


def _add_row(delays: RankDelays, added: int, rows: Rows, row: int) -> None:
    """Count a row that a rank reached last, ``added`` ns later than it reached the one before."""
    delays.last += 1
    if added <= 0:
        return
    delays.total += added
    delays.sizes.append(added)
    delays.sites[rows.vocabulary.appearances[rows.appearance[row]].site] += added
