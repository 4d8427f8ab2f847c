"""Read a rank's files: from end to end, or both ends and then what is looked up."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from collectrace.align.reading.keys import Digests, Key, StreamKey
from collectrace.align.reading.rank_records import RankRecords
from collectrace.align.reading.rows import Rows
from collectrace.align.reading.segments import LONGEST_LINE, Segments
from collectrace.align.reading.strands import Chain
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.records import Call, Stack, readable

_ENDS: Final = 16 * 1024
"""Bytes read at the head of a log, and at least at its tail, if it is not scanned."""

_SEARCHED: Final = 160 * 1024
"""Bytes that contain a checkpoint wherever they begin. More are read if streams and channels are so
many that checkpoints are further apart."""

OnBytes = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""

_CHECKPOINT: Final = b'{"kind":"checkpoint"'


class RankReader:
    """What is known of one rank's files so far, and the means to look up more.

    ``provisional``: the process that wrote the files has no run id yet.
    """

    def __init__(
        self, segments: Segments, rank: int, vocabulary: Vocabulary, *, provisional: bool = False
    ) -> None:
        self.segments = segments
        self.provisional = provisional
        self.records = RankRecords(rank, vocabulary)
        self.scanned = False
        self._covered: list[tuple[int, int]] = []

    def scan(self, on_bytes: OnBytes | None = None) -> None:
        """Read every line, and lines that were read before once more."""
        if self.scanned:
            return
        self._reset()
        self._read_from(0, on_bytes)
        if self.records.ungrouped & self.records.members.keys():
            # The record of a group comes after its calls.
            self._reset()
            self._read_from(0)
        self.scanned = True

    def _reset(self) -> None:
        before = self.records
        self.records = RankRecords(before.rank, before.vocabulary)
        self.records.members.update(before.members)
        self._covered = []

    def grow(self, segments: Segments) -> bool:
        """Read what was added, in later ``segments`` of the same files; false if they differ."""
        if not segments.continues(self.segments):
            return False
        if segments.size > self.segments.size:
            # A last line that was torn then may be complete now.
            start = self.segments.last_line()
            if self.records.latest[0] == start:
                start = self.segments.size - 1
            self._covered = [(low, min(high, start)) for low, high in self._covered if low < start]
            segments.bytes_read += self.segments.bytes_read
            self.segments = segments
            self._read_from(start)
        return True

    def _read_from(self, start: int, on_bytes: OnBytes | None = None) -> None:
        """Feed every line from offset ``start`` on, which begins a line."""
        done, size = start, self.segments.size
        for offset, lines in self.segments.blocks(start):
            if on_bytes is not None:
                on_bytes(offset - done)
                done = offset
            self.records.feed(offset, lines, size - 1, calls_only=False)
        self.records.settle()
        if on_bytes is not None:
            on_bytes(size - done)
        insort(self._covered, (start, size))
        self._merge()

    @property
    def rotated(self) -> bool:
        """Whether the middle of the log was removed."""
        return bool(self.records.rotated or self.segments.holes())

    @property
    def damaged(self) -> int:
        """Lines that could not be read, or repeat the number of an earlier call."""
        return self.records.damaged + self.records.doubled

    @property
    def lacks_groups(self) -> bool:
        """Whether there are no records of groups that the process requested before others."""
        ordinals = {group.ordinal for group in self.records.groups}
        return len(ordinals) <= max(ordinals, default=-1)

    @property
    def unaccounted(self) -> int:
        """Calls that the last line counts beyond those known by their numbers.

        Negative: it counts fewer. 0 if no line counts calls.
        """
        records = self.records
        billed = records.exit.calls if records.exit is not None else 0
        numbered = sum(rows.last() for rows in records.rows.values()) + len(records.refused)
        if not billed:
            return 0  # another tool wrote the log
        if billed > numbered and self.rotated and self.lacks_groups:
            # A group may have been made and destroyed in the middle of the log, which was removed.
            return 0
        return billed - numbered

    def chains(self) -> Iterator[Chain]:
        """Yield the digests of every stream."""
        imported = self.records.imported
        begins = imported is not None and bool(imported.lost)
        for key, rows in self.records.rows.items():
            if isinstance(key, StreamKey):
                yield Chain(rows, partial(self._digests, rows), begins=begins)

    def _digests(self, rows: Rows, at: int) -> Digests | None:
        call = readable(self.segments.line(rows.offset[at]))
        return Digests(call.digest, call.program, call.pairs) if isinstance(call, Call) else None

    def is_doubtful(self) -> bool:
        """Return whether lines are missing, or contradict the digests, in what was read so far."""
        return any(map(self.lost, self.records.rows)) or not all(
            chain.fits() for chain in self.chains()
        )

    def _holes(self, rows: Rows) -> Iterator[tuple[int, int, bool]]:
        """Yield ranges of rows (first, last) that are not there, and whether all was read there."""
        known = [(0, 0, 0, 0)]
        """Runs of rows: the first and the last, and the offsets of their lines."""
        for first, last, at in rows.runs():
            known.append((first, last, rows.offset[at], rows.offset[at + last - first]))
        known.append((rows.last() + 1, 0, self.segments.size, 0))
        for (_, before, _, start), (after, _, stop, _) in pairwise(known):
            if after > before + 1 and not self._is_rotated(start, stop):
                yield before + 1, after - 1, not self._uncovered(start, stop)

    def _is_rotated(self, start: int, stop: int) -> bool:
        holes = self.segments.holes()
        return bisect_right(holes, stop) > bisect_right(holes, start)

    def lost(self, key: Key) -> list[tuple[int, int]]:
        """Return rows of a stream or channel, first and last, that are lost, not rotated away.

        If the log was read partly, the list has only losses in what was read.
        """
        rows = self.records.rows.get(key)
        holes = () if rows is None else self._holes(rows)
        return [(first, last) for first, last, is_read in holes if is_read]

    def is_unread(self, key: Key) -> bool:
        """Return whether rows of a stream or channel may be in what was not read."""
        rows = self.records.rows.get(key)
        return rows is not None and not all(is_read for *_, is_read in self._holes(rows))

    def skim(self) -> None:
        """Read the head and the tail; read everything if these do not explain the rest."""
        segments = self.segments
        self._take(0, _ENDS)
        is_known = True
        for hole in segments.holes():
            is_known &= self._take_back(hole)
            self._take(hole, hole + _ENDS)
        is_known &= self._take_back(segments.size)
        end = _ENDS
        while self._unexplained() and end < min(segments.size, LONGEST_LINE):
            self._take(end, end + _ENDS)
            end += _ENDS
        records = self.records
        if (
            not is_known
            or self._unexplained()
            or records.dropped
            or self.damaged
            or records.header is None
            or self.unaccounted
            or not self._holes_known()
            or self.is_doubtful()
        ):
            self.scan()
            return
        records.groups.sort(key=lambda group: group.t)
        tail = self._covered[-1][0]
        if not any(rows.offset and rows.offset[-1] >= tail for rows in records.rows.values()):
            # Only heartbeats, for a long time: the last calls are somewhere before.
            for key, rows in list(records.rows.items()):
                self.locate(key, rows.last())

    def _take(self, start: int, stop: int, *, calls_only: bool = False) -> bool:
        """Feed the unread complete lines of a stretch; false if there are none."""
        segments = self.segments
        some = False
        for low, high in self._uncovered(start, min(stop, segments.size)):
            begin, lines, end = segments.window(low, high)
            if not lines:
                continue
            some = True
            insort(self._covered, (begin, end))
            self.records.feed(begin, lines, segments.size - 1, calls_only=calls_only)
        if some:
            self.records.settle()
        self._merge()
        return some

    def _take_back(self, end: int) -> bool:
        """Feed the lines from the latest checkpoint to an offset; false if it is too far."""
        start, size = end, _ENDS
        while start > 0:
            if size > LONGEST_LINE:
                return False
            start, size = max(0, start - size), size * 2
            _, lines, stop = self.segments.window(start, end)
            latest = next((n for n in range(len(lines) - 1, -1, -1)
                           if lines[n].startswith(_CHECKPOINT)), None)  # fmt: skip
            if latest is not None:
                checkpoint = stop - sum(len(line) + 1 for line in lines[latest:])
                start = max(start, min(checkpoint, end - _ENDS))
                break
        self._take(start, end)
        return True

    def _uncovered(self, start: int, stop: int) -> list[tuple[int, int]]:
        free = []
        for low, high in self._covered:
            if high <= start:
                continue
            if low >= stop:
                break
            if low > start:
                free.append((start, low))
            start = high
        if start < stop:
            free.append((start, stop))
        return free

    def _merge(self) -> None:
        merged: list[tuple[int, int]] = []
        for low, high in self._covered:
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._covered = merged

    def _unexplained(self) -> bool:
        known = {group.group for group in self.records.groups}
        return any(key.group not in known for key in self.records.rows)

    def _holes_known(self) -> bool:
        heads = {offset for rows in self.records.rows.values() for _, offset in rows.marks}
        return all(
            any(hole <= offset < hole + _ENDS for offset in heads) for hole in self.segments.holes()
        )

    # -- looking up ---------------------------------------------------------------------------

    def locate(self, key: Key, seq: int) -> int | None:
        """Return the index of a row, reading it if needed; None if it was not recorded."""
        rows = self.records.rows.get(key)
        if rows is None or seq < 1:
            return None
        page, grow, attempt, before = self.segments.page, 1, 0, (0, 0)
        while (row := rows.find(seq)) is None:
            (low, start), (high, stop) = rows.bracket(seq, self.segments.size)
            free = self._uncovered(start, stop)
            if not free or high < low:
                return None
            # Calls are spread evenly; if they are not, halving finds the row too.
            grow = grow * 2 if before == (start, stop) else 1
            before, attempt = (start, stop), attempt + 1
            share = (2 * (seq - low) - 1) / (2 * max(1, high - low)) if attempt % 4 else 0.5
            guess = start + int((stop - start) * min(1.0, max(0.0, share)))
            self._read_near(free, guess, min(grow, 16) * page)
        return row

    def stack(self, number: int) -> Stack | None:
        """Return a stack record, reading it if needed; None if it was lost.

        Stack records are numbered in file order, and checkpoints count them.
        """
        found = self.records.stacks
        size, before = _SEARCHED, (-1, -1)
        while number not in found and not self.scanned:
            counts = self.records.stack_counts
            low = max((at for count, at in counts if count < number), default=0)
            high = min((at for count, at in counts if count >= number and at > low),
                       default=self.segments.size)  # fmt: skip
            size = size * 2 if before == (low, high) else _SEARCHED
            before = low, high
            is_all = high - low <= 2 * size
            if not is_all:
                middle = (low + high) // 2
                low, high = middle - size // 2, middle + size // 2
            if not self._take(low, high, calls_only=True) and is_all:
                break
        return found.get(number)

    def _read_near(self, free: list[tuple[int, int]], guess: int, size: int) -> None:
        """Feed about ``size`` unread bytes near a guessed offset."""
        low, high = min(free, key=lambda part: max(part[0] - guess, guess - part[1], 0))
        start = max(low, min(guess - size // 2, high - size))
        if self._take(start, min(high, start + size), calls_only=True):
            return
        # A line longer than that: every unread stretch begins at the start of a line.
        while not self._take(low, min(high, low + size), calls_only=True):
            if low + size >= high or size > LONGEST_LINE:
                self._covered = sorted([*self._covered, (low, high)])
                return
            size *= 2
