"""Compare the files of all ranks when this rank stalls or an exception ends it.

A comparison is called a look. One rank does it for all: the one that first creates the look's mark,
a file in the run's folder (see ``collectrace.log_folder``), starts the aligner. The rank and the
aligner touch the mark as long as the aligner runs. Without a reason to look, nothing is read and no
process is started.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from collectrace import file_modes
from collectrace.config import BUSY
from collectrace.log_folder import LOOK, QUIET, RANK_FILE, TOLD, look_file
from collectrace.tracer.guard import contained
from collectrace.tracer.life.aligner_process import AlignerProcess
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now

_GRACE: Final = 2.0
"""Seconds for ranks that stall a moment later to record what they wait in, and their values."""

_TO_TAKE_OVER: Final = 10.0
"""Seconds without a sign of life after which another rank looks."""

_MOST_IN_VAIN: Final = 3
"""Unfinished looks in a row, after which this rank stops."""

_TO_TELL: Final = 5.0
"""Seconds for which an ending process waits for the verdict."""

_PAUSE: Final = 0.05

_STANDARD_ERROR: Final = 2


class Reporter:
    """Starts looks for one rank. All methods except :meth:`want` may read the folder.

    ``recorder`` must have its file in the run's folder already.
    """

    def __init__(self, recorder: Recorder, rank: int, world_size: int, stall_after: float) -> None:
        self._recorder, self._rank, self._world_size = recorder, rank, world_size
        self._folder = recorder.writer.home
        self._patience = BUSY * stall_after
        self._grace = _GRACE
        self._wanted_at: int | None = None
        """When this rank had a reason to look that no look has covered yet, ns."""
        self._number = 1
        """Number of the first look that may still be in progress."""
        self._told_at = self._quiet_at = 0
        """When the latest look that printed an error, or that found none, read the files. In the
        monotonic clock: if the wall clock is set back, an old look must not count as new."""
        self._in_vain = 0
        self._mark = -1.0
        self._marked_at = 0.0
        """The last sign of life of the look in progress, and when it was seen first, s."""
        self._process: AlignerProcess | None = None
        self._look_at: Path | None = None
        """The mark of the look that this rank has begun."""
        self._is_off = False
        self._until = 0.0
        """Until when the end of the process waits, s."""

    def want(self) -> None:
        """Note that this rank has a reason to look."""
        self._wanted_at = now()

    def is_explained(self) -> bool:
        """Return whether an error was printed since this rank's last call."""
        self._follow()
        return self._told_at > self._recorder.last_t

    def step(self) -> None:
        """Start or follow a look if necessary. Call this regularly."""
        if self._process is not None:
            if self._process.is_over():
                self._process = None
            elif self._look_at is not None:  # on a busy machine the aligner may start late
                with contextlib.suppress(OSError):
                    os.utime(self._look_at)
        if not self._is_waiting:
            return
        try:
            if not self._follow():
                self._look()
        except (OSError, RuntimeError):  # no process, no room on the disk, or Python has ended
            self._is_off = True  # another rank may be able to look

    def explain(self) -> bool:
        """Begin to look, as an exception ends this rank; return False if that is impossible."""
        self._until = time.monotonic() + _TO_TELL
        self._grace = 0.0
        self.want()
        self.step()
        return self._is_waiting or self.is_explained()

    def linger(self) -> bool:
        """Wait for the look that :meth:`explain` began; return whether an error was printed."""
        if not self._until:
            return False
        with contextlib.suppress(KeyboardInterrupt):
            while self._is_waiting and time.monotonic() < self._until:
                time.sleep(_PAUSE)
                self.step()
        return self.is_explained()

    @property
    def _is_waiting(self) -> bool:
        return self._wanted_at is not None and not self._is_off

    def _look(self) -> None:
        is_answered = self.is_explained() or self._quiet_at > (self._wanted_at or 0)
        is_hopeless = self._in_vain >= _MOST_IN_VAIN
        if is_answered or is_hopeless or not self._can_print() or not self._has_all_files():
            self._wanted_at = None
        elif self._is_first():
            self._process = AlignerProcess(
                "report_by_itself",
                [str(self._folder), str(self._number), str(self._rank), str(os.getpid()),
                 str(self._grace), str(self._patience)],
            )  # fmt: skip

    def _follow(self) -> bool:
        """Find out which looks are over; return whether one is in progress."""
        while True:
            told, quiet = self._time(TOLD), self._time(QUIET)
            if told is None and quiet is None:
                mark = self._time(LOOK)
                if mark is None:
                    return False
                if mark != self._mark:
                    self._mark, self._marked_at = mark, time.monotonic()
                if time.monotonic() - self._marked_at < _TO_TAKE_OVER:
                    return True
                self._in_vain += 1
            else:
                self._in_vain = 0
            if told is not None:
                self._told_at = _to_monotonic(told)
            if quiet is not None:
                self._quiet_at = _to_monotonic(quiet)
            self._number += 1

    def _time(self, mark: str) -> float | None:
        try:
            return (self._folder / look_file(self._number, mark)).stat().st_mtime
        except OSError:
            return None

    def _is_first(self) -> bool:
        path = self._folder / look_file(self._number, LOOK)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, file_modes.of_files()))
        except FileExistsError:
            return False
        self._look_at = path
        return True

    def _has_all_files(self) -> bool:
        with os.scandir(self._folder) as entries:
            found = {int(name[1]) for entry in entries if (name := RANK_FILE.fullmatch(entry.name))}
        return found >= set(range(self._world_size))

    def _can_print(self) -> bool:
        """Return whether ``sys.__stderr__`` is still the standard error of this process."""
        stream = sys.__stderr__
        try:
            return stream is not None and stream.fileno() == _STANDARD_ERROR and bool(os.fstat(2))
        except (OSError, ValueError):
            return False


class ReporterBeside(Reporter):
    """A reporter for a folder that may stop answering: only a separate thread reads it."""

    def __init__(self, recorder: Recorder, rank: int, world_size: int, stall_after: float) -> None:
        super().__init__(recorder, rank, world_size, stall_after)
        self._wishes: SimpleQueue[None] = SimpleQueue()
        # Started now, as no thread can be started when the interpreter ends.
        threading.Thread(target=self._work, name="collectrace-report", daemon=True).start()

    def want(self) -> None:
        """See :class:`Reporter`."""
        super().want()
        self._wishes.put(None)

    def step(self) -> None:
        """Do nothing: the thread does it."""

    def is_explained(self) -> bool:
        """See :class:`Reporter`; uses what the thread has read so far."""
        return self._told_at > self._recorder.last_t

    def _work(self) -> None:
        while True:
            self._wishes.get()
            with contained(self._recorder.count_beside, "comparing the ranks"):
                while self._is_waiting:
                    super().step()
                    time.sleep(_PAUSE)


def _to_monotonic(wall: float) -> int:
    """Convert a past time of the wall clock, s, to the monotonic clock, ns."""
    return now() - max(0, round((time.time() - wall) * 1e9))
