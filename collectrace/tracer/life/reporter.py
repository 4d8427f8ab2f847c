"""Has the files of all ranks compared when this rank has stalled, or an exception ends it.

One rank does it for all. The ranks agree on it by files in the run's folder, see
``collectrace.log_folder``. Whoever creates the mark of a look first starts the aligner. Both touch
the mark as long as that process lives. Nothing is read and no process is started before there is a
reason to look.
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
from collectrace.log_folder import LOOK, QUIET, RANK_FILE, TOLD, look_file
from collectrace.tracer.guard import contained
from collectrace.tracer.life.aligner_process import AlignerProcess
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now

_GRACE: Final = 2.0
"""Seconds in which ranks that stall a moment later write what they wait in, and their values."""

_BUSY: Final = 8
"""How many times ``stall_after`` a rank may be busy while others wait: an evaluation may be long.
By default that is 8 minutes; NCCL's watchdog ends the job after 10."""

_TO_TAKE_OVER: Final = 10.0
"""Seconds without a sign of life after which another rank looks."""

_MOST_IN_VAIN: Final = 3
"""Looks one after the other that came to no end."""

_TO_TELL: Final = 5.0
"""Seconds that the end of a process waits at most for the verdict."""

_PAUSE: Final = 0.05

_STANDARD_ERROR: Final = 2


class Reporter:
    """The part of one rank in it. Each method but :meth:`want` may look at the folder.

    ``recorder`` has its file in the run's folder already.
    """

    def __init__(self, recorder: Recorder, rank: int, world_size: int, stall_after: float) -> None:
        self._recorder, self._rank, self._world_size = recorder, rank, world_size
        self._folder = recorder.writer.home
        self._patience = _BUSY * stall_after
        self._grace = _GRACE
        self._wanted_at: int | None = None
        """When this rank had a reason to look that no look has covered so far."""
        self._number = 1
        """Of the first look that is not known to be over."""
        self._told_at = self._quiet_at = 0
        """When the latest look of either end read the files. By the monotonic clock, as all times:
        once the wall clock has gone back, a look of the past would answer for what is to come."""
        self._in_vain = 0
        self._mark = -1.0
        self._marked_at = 0.0
        """The last sign of life of the look that is on, and when it was seen first, s."""
        self._process: AlignerProcess | None = None
        self._look_at: Path | None = None
        """The mark of the look that this rank has begun."""
        self._is_off = False
        self._until = 0.0
        """When the end of the process waits no longer, s."""

    def want(self) -> None:
        """This rank has a reason to look."""
        self._wanted_at = now()

    def is_explained(self) -> bool:
        """Whether a person was told of an error, and this rank has issued no call since."""
        self._follow()
        return self._told_at > self._recorder.last_t

    def step(self) -> None:
        """Do what is to be done now; to be called again and again."""
        if self._process is not None:
            if self._process.is_over():
                self._process = None
            elif self._look_at is not None:  # on a busy machine it may take long to begin
                with contextlib.suppress(OSError):
                    os.utime(self._look_at)
        if not self._is_waiting:
            return
        try:
            if not self._follow():
                self._look()
        except (OSError, RuntimeError):  # no process, no room on the disk, or Python has ended
            self._is_off = True  # another rank may do better

    def explain(self) -> bool:
        """Begin to look, since an exception ends this rank; false: nothing can be found out."""
        self._until = time.monotonic() + _TO_TELL
        self._grace = 0.0
        self.want()
        self.step()
        return self._is_waiting or self.is_explained()

    def linger(self) -> bool:
        """Wait for what :meth:`explain` has begun; whether a person was told of an error."""
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
        """Find out which looks are over; return whether one is on."""
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
                self._told_at = _moment(told)
            if quiet is not None:
                self._quiet_at = _moment(quiet)
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
        """Whether this process has a standard error: its descriptor may be another file by now."""
        stream = sys.__stderr__
        try:
            return stream is not None and stream.fileno() == _STANDARD_ERROR and bool(os.fstat(2))
        except (OSError, ValueError):
            return False


class ReporterBeside(Reporter):
    """A reporter whose folder may stop answering: only a thread of its own looks at it."""

    def __init__(self, recorder: Recorder, rank: int, world_size: int, stall_after: float) -> None:
        super().__init__(recorder, rank, world_size, stall_after)
        self._wishes: SimpleQueue[None] = SimpleQueue()
        # At once: when an interpreter ends, no thread can be started.
        threading.Thread(target=self._work, name="collectrace-report", daemon=True).start()

    def want(self) -> None:
        """See :class:`Reporter`."""
        super().want()
        self._wishes.put(None)

    def step(self) -> None:
        """Do nothing: the thread does it."""

    def is_explained(self) -> bool:
        """See :class:`Reporter`; by what the thread has seen."""
        return self._told_at > self._recorder.last_t

    def _work(self) -> None:
        while True:
            self._wishes.get()
            with contained(self._recorder.count_beside, "comparing the ranks"):
                while self._is_waiting:
                    super().step()
                    time.sleep(_PAUSE)


def _moment(wall: float) -> int:
    """Return what the monotonic clock showed when the wall clock showed this, which is over."""
    return now() - max(0, round((time.time() - wall) * 1e9))
