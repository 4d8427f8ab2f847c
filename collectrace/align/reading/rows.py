"""The rows of one stream or channel of one rank, in flat arrays.

A trace may hold millions of calls, so a row is a few numbers. Among them are the offset of its line
and two interned ids that describe the call.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from collectrace.align.reading.vocabulary import VOID, Vocabulary


class Strand(NamedTuple):
    """Consecutive rows, and the ``program`` digests at both ends.

    ``last`` is ``first - 1`` if the digest is from a checkpoint alone.
    """

    first: int
    last: int
    before: int | None = None
    """The digest before the first row; None: no digest is known."""
    after: int | None = None
    """The digest after the last row."""
    proven: bool = True
    """Two digests agree on the rows between them, or there are no digests to contradict them."""


def by_rows(strand: Strand) -> tuple[int, int]:
    """Return the sort key of a strand: its rows, without the digests, which may be None."""
    return strand.first, strand.last


class Strands:
    """Strands in order of their rows, found by bisection."""

    def __init__(self, strands: Iterable[Strand]) -> None:
        self._all = sorted(strands, key=by_rows)
        self._firsts = [one.first for one in self._all]
        self._ends = list(accumulate((one.last for one in self._all), max))
        """Per strand, the last row of it and of all before it: this never decreases."""

    def __iter__(self) -> Iterator[Strand]:
        return iter(self._all)

    def end(self, first: int) -> int | None:
        """Return the last row of the strands that begin up to a row; None if there are none."""
        at = bisect_right(self._firsts, first)
        return self._ends[at - 1] if at else None

    def covers(self, first: int, last: int) -> bool:
        """Return whether one strand has two rows, and all between."""
        end = self.end(first)
        return end is not None and end >= last

    def reaching(self, row: int) -> Strand | None:
        """Return the first strand that extends to a row, or begins after it."""
        at = bisect_left(self._ends, row)
        return self._all[at] if at < len(self._all) else None

    def after(self, row: int) -> Strand | None:
        """Return a strand that gives the digest after a row."""
        found = self.reaching(row)
        return found if found is not None and found.first - 1 <= row else None

    def add(self, strand: Strand) -> None:
        """Add a strand in order."""
        at = bisect_right(self._all, by_rows(strand), key=by_rows)
        end = max(strand.last, self._ends[at - 1]) if at else strand.last
        self._all.insert(at, strand)
        self._firsts.insert(at, strand.first)
        self._ends.insert(at, end)
        while (at := at + 1) < len(self._ends) and self._ends[at] < end:
            self._ends[at] = end

    def shorten(self, strand: Strand, to: Strand) -> None:
        """Replace a strand by one without its first row."""
        at = bisect_left(self._all, by_rows(strand), key=by_rows)
        if at < len(self._all) and self._all[at] == strand:
            self._all[at], self._firsts[at] = to, to.first


class Rows:
    """Rows in order of their sequence number, and the counts of calls from checkpoints.

    The arrays run in parallel: the n-th entry of each belongs to the same row.
    """

    __slots__ = (
        "appearance", "checkpoints", "disproved", "iteration", "late", "marks", "meaning", "offset",
        "refused", "seq", "steps", "strands", "t", "vocabulary",
    )  # fmt: skip

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.seq = array("q")
        self.t = array("q")
        self.offset = array("q")
        self.meaning = array("i")
        self.appearance = array("i")
        self.iteration = array("q")
        self.steps: dict[int, int | None] = {}
        """all_to_all: the rank's contribution by sequence number; None: it is not known."""
        self.marks: list[tuple[int, int]] = [(0, 0)]
        """(calls written before an offset, that offset), ascending in both."""
        self.checkpoints: dict[int, tuple[int | None, int | None, int | None]] = {}
        """Digest, program and pairs after a call, from a checkpoint."""
        self.refused: dict[int, int] = {}
        """By sequence number, the offset of the latest line that reports such a call as refused:
        earlier calls with that number are not rows."""
        self.disproved: set[int] = set()
        """Numbers with lines that contradict each other, or the digests: such a row is lost."""
        self.late: dict[int, tuple[int, ...]] = {}
        """By number, the rows that were read after later ones: `settle` sorts them in."""
        self.strands: tuple[tuple[int, ...], Sequence[Strand]] | None = None
        """What the digests prove of the rows, and the state of the rows then: see ``strands``."""

    def __len__(self) -> int:
        return len(self.seq)

    def add(
        self, seq: int, t: int, offset: int, meaning: int, appearance: int, iteration: int
    ) -> bool:
        """Add a row; false if its number is there already.

        If that row is another call, both are dropped.
        """
        if offset < self.refused.get(seq, 0):
            return True  # it is not in the stream
        if seq in self.late:
            self.settle()
        at = bisect_left(self.seq, seq)
        if at < len(self.seq) and self.seq[at] == seq:
            if (self.t[at], self.meaning[at], self.appearance[at]) != (t, meaning, appearance):
                self.disprove(seq)
            return False
        if seq in self.disproved:
            return False
        row = seq, t, offset, meaning, appearance, iteration
        if at < len(self.seq):
            self.late[seq] = row
            return True
        for column, value in zip(self._columns(), row, strict=True):
            column.append(value)
        return True

    def settle(self) -> None:
        """Sort in the rows that were read after later ones, all at once."""
        if not self.late:
            return
        late = zip(*self.late.values(), strict=True)
        for column, values in zip(self._columns(), late, strict=True):
            column.extend(values)
        self.late.clear()
        order = sorted(range(len(self.seq)), key=self.seq.__getitem__)
        for column in self._columns():
            column[:] = array(column.typecode, [column[n] for n in order])

    def _columns(self) -> tuple[array[int], ...]:
        return self.seq, self.t, self.offset, self.meaning, self.appearance, self.iteration

    def refuse(self, seq: int, offset: int) -> int | None:
        """Remove the row of a refused call, as a line at ``offset`` reports.

        Return the offset of the call's own line; None if that has not been read.
        """
        self.refused[seq] = max(offset, self.refused.get(seq, 0))
        self.settle()
        # Both columns ascend, so the wrong marks are adjacent.
        first = bisect_left(self.marks, (seq, -1))
        last = bisect_right(self.marks, offset, first, key=itemgetter(1))
        del self.marks[first:last]
        at = self.find(seq)
        if at is None or self.offset[at] > offset:
            return None
        self.checkpoints.pop(seq, None)
        found = self.offset[at]
        self._remove(at)
        return found

    def disprove(self, seq: int) -> None:
        """Drop a row with a line that cannot be right."""
        self.settle()
        at = self.find(seq)
        if at is not None:
            self._remove(at)
        self.disproved.add(seq)

    def _remove(self, at: int) -> None:
        self.steps.pop(self.seq[at], None)
        for column in self._columns():
            del column[at]

    def mark(self, count: int, offset: int) -> None:
        """Note that ``count`` calls of the stream were written before an offset of the file."""
        if (count, offset) not in self.marks[-1:]:
            insort(self.marks, (count, offset))

    def find(self, seq: int) -> int | None:
        """Return the index of a row; None if it is not there."""
        at = bisect_left(self.seq, seq)
        return at if at < len(self.seq) and self.seq[at] == seq else None

    def position(self, seq: int) -> int:
        """Return the index of a row, or where it would be inserted."""
        return bisect_left(self.seq, seq)

    def bracket(self, seq: int, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the closest known (count, offset) before and after the start of a row's line."""
        low, high = (0, 0), (seq, size)
        at = bisect_left(self.marks, (seq, -1))
        if at:
            low = self.marks[at - 1]
        if at < len(self.marks):
            high = self.marks[at]
        row = bisect_left(self.seq, seq)
        if row:
            # The line of the row before begins here, so the wanted one is after it.
            low = max(low, (self.seq[row - 1], self.offset[row - 1] + 1))
        if row < len(self.seq):
            high = min(high, (self.seq[row] - 1, self.offset[row]))
        return low, high

    def holds(self, at: int) -> bool:
        """Return whether a row's call returns only after every rank has issued it.

        This was seen once for its line, at the first such call.
        """
        return self.vocabulary.holds[self.appearance[at]]

    def voids(self) -> tuple[int, int, int] | None:
        """Return the first number, the count and the first time (ns) of undescribed calls.

        None if there are none.
        """
        void = self.vocabulary.meanings.get(VOID)
        count = 0 if void is None else self.meaning.count(void)
        if void is None or not count:
            return None
        at = self.meaning.index(void)
        return self.seq[at], count, self.t[at]

    def last(self) -> int:
        """Return the number of the latest call, even if its row is lost."""
        latest = self.seq[-1] if self.seq else 0
        others = (max(those, default=0) for those in (self.checkpoints, self.disproved))
        return max(latest, self.marks[-1][0], *others)

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield stretches without a gap: first number, last number, index of the first."""
        seq, total, start = self.seq, len(self.seq), 0
        while start < total:
            # A run ends where numbers outgrow indices. Both ascend, so bisection finds that.
            shift = seq[start] - start
            end = bisect_right(range(start, total), shift, key=lambda i: seq[i] - i)
            end += start
            yield seq[start], seq[end - 1], start
            start = end
