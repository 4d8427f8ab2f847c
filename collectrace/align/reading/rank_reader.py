"""A rank's files read: from end to end, or at both ends and then where somebody asks."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Final

from collectrace.align.reading.rank_records import Intake, Key
from collectrace.align.reading.segments import Tape
from collectrace.align.reading.vocabulary import Vocabulary

_ENDS: Final = 32 * 1024
"""Bytes read at the head of a log, and at least at its tail, where it is not scanned."""

Progress = Callable[[int], None]
"""Told how many more bytes have been read."""

_CHECKPOINT: Final = b'{"kind":"checkpoint"'


class Reading:
    """What is known of a tape so far, and the ways to know more."""

    def __init__(self, tape: Tape, rank: int, vocabulary: Vocabulary) -> None:
        self.tape = tape
        self.intake = Intake(rank, vocabulary)
        self.scanned = False
        self._covered: list[tuple[int, int]] = []

    def scan(self, progress: Progress | None = None) -> None:
        """Read every line; what was read before is read again."""
        if self.scanned:
            return
        self.intake = Intake(self.intake.rank, self.intake.vocabulary)
        self._covered = []
        self._read_on(0, progress)
        self.scanned = True

    def grow(self, tape: Tape) -> bool:
        """Read what was written since; ``tape`` is the same files later. False: it is not."""
        if not tape.continues(self.tape):
            return False
        if tape.size > self.tape.size:
            # A last line that was torn then may be whole now.
            start = self.tape.last_line()
            if self.intake.latest[0] == start:
                start = self.tape.size - 1
            self._covered = [(low, min(high, start)) for low, high in self._covered if low < start]
            tape.bytes_read += self.tape.bytes_read
            self.tape = tape
            self._read_on(start)
        return True

    def _read_on(self, start: int, progress: Progress | None = None) -> None:
        """Feed every line from ``start`` on, where a line begins."""
        done, size = start, self.tape.size
        for offset, lines in self.tape.blocks(start):
            if progress is not None:
                progress(offset - done)
                done = offset
            self.intake.feed(offset, lines, size - 1, calls_only=False)
        if progress is not None:
            progress(size - done)
        insort(self._covered, (start, size))
        self._merge()

    def skim(self) -> None:
        """Read the head and the tail; the whole where those do not explain what lies between."""
        tape = self.tape
        self._take(0, _ENDS)
        for hole in tape.holes():
            self._take_back(hole)
            self._take(hole, hole + _ENDS)
        self._take_back(tape.size)
        end = _ENDS
        while self._unexplained() and end < tape.size:
            self._take(end, end + _ENDS)
            end += _ENDS
        intake = self.intake
        if intake.dropped or intake.damaged or intake.header is None or not self._holes_known():
            self.scan()
            return
        intake.groups.sort(key=lambda group: group.t)
        tail = self._covered[-1][0]
        if not any(track.offset and track.offset[-1] >= tail for track in intake.tracks.values()):
            # Heartbeats only, for a long time: the last calls lie somewhere before.
            for key, track in list(intake.tracks.items()):
                self.locate(key, track.last())

    def _take(self, start: int, stop: int, *, calls_only: bool = False) -> bool:
        """Feed the complete lines of a stretch that were not fed; false where there are none."""
        tape = self.tape
        some = False
        for low, high in self._uncovered(start, min(stop, tape.size)):
            begin, lines, end = tape.window(low, high)
            if not lines:
                continue
            some = True
            insort(self._covered, (begin, end))
            self.intake.feed(begin, lines, tape.size - 1, calls_only=calls_only)
        self._merge()
        return some

    def _take_back(self, end: int) -> None:
        """Feed what lies before an offset, back to the latest checkpoint."""
        start, size = end, _ENDS
        while start > 0:
            start, size = max(0, start - size), size * 2
            _, lines, _ = self.tape.window(start, end)
            if any(line.startswith(_CHECKPOINT) for line in lines):
                break
        self._take(start, end)

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
        known = {group.group for group in self.intake.groups}
        return any(key.group not in known for key in self.intake.tracks)

    def _holes_known(self) -> bool:
        heads = {offset for track in self.intake.tracks.values() for _, offset in track.marks}
        return all(
            any(hole <= offset < hole + _ENDS for offset in heads) for hole in self.tape.holes()
        )

    # -- looking up ---------------------------------------------------------------------------

    def locate(self, key: Key, seq: int) -> int | None:
        """The index of a row in its track, read now if need be; None: it was not recorded."""
        track = self.intake.tracks.get(key)
        if track is None or seq < 1:
            return None
        page, grow, attempt, before = self.tape.page, 1, 0, (0, 0)
        while (row := track.find(seq)) is None:
            (low, start), (high, stop) = track.bracket(seq, self.tape.size)
            free = self._uncovered(start, stop)
            if not free or high < low:
                return None
            # Calls lie about evenly; where they do not, halving gets there too.
            grow = grow * 2 if before == (start, stop) else 1
            before, attempt = (start, stop), attempt + 1
            share = (2 * (seq - low) - 1) / (2 * max(1, high - low)) if attempt % 4 else 0.5
            guess = start + int((stop - start) * min(1.0, max(0.0, share)))
            self._look(free, guess, min(grow, 16) * page)
        return row

    def _look(self, free: list[tuple[int, int]], guess: int, size: int) -> None:
        """Feed about ``size`` bytes near a guess, out of stretches that were not read."""
        low, high = min(free, key=lambda part: max(part[0] - guess, guess - part[1], 0))
        start = max(low, min(guess - size // 2, high - size))
        if self._take(start, min(high, start + size), calls_only=True):
            return
        # A line longer than that: every free stretch begins with the beginning of a line.
        while not self._take(low, min(high, low + size), calls_only=True):
            if low + size >= high:
                self._covered = sorted([*self._covered, (low, high)])
                return
            size *= 2
