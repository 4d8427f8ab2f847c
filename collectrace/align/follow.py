"""A job that still runs: looked at again and again, until there is something to say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final, Protocol

from collectrace.align.alignment import CONTEXT, compared, judged
from collectrace.align.matching.comparison import Comparison
from collectrace.align.ranks.standing import patience
from collectrace.align.reading import through_store
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.align.reading.run_reader import RunReader
from collectrace.align.reading.source import Folder
from collectrace.errors import LogError, NotNow, NotThere
from collectrace.exchange import SCHEME
from collectrace.findings import Alignment
from collectrace.views import StreamPosition

INTERVAL: Final = 1.0
"""Seconds between two looks."""

_PAUSE: Final = 4
"""Pause at least this many times the last look's duration: the machine's time is the job's."""

_PATIENCE: Final = 120.0
"""Seconds for which the ranks of a job may not be asked: longer than any diagnosis of its own."""


class Stop(Protocol):
    """Says that no further look is wanted: what a ``threading.Event`` has of that."""

    def is_set(self) -> bool:
        """Whether that was said."""

    def wait(self, timeout: float) -> bool:
        """Return as soon as it is said, or after ``timeout`` seconds; whether it was."""


class Follower:
    """What can be said of a run while it is written.

    Takes what :func:`collectrace.align.align` takes, or the URL of a running job's store (see
    ``reading.through_store``), and ``interval``, the seconds between two looks at the logs. Each
    look reads what the ranks have written since the one before; ranks that are asked for it are
    not asked more often than their hearts beat.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        run: str | None = None,
        full: bool = False,
        context: int = CONTEXT,
        interval: float = INTERVAL,
    ) -> None:
        self._url = str(path) if str(path).startswith(SCHEME) else None
        self._memory = through_store.Memory()
        self._asked = time.monotonic()
        """When the ranks have answered last, this process's monotonic clock."""
        self.gone: str | None = None
        """Why the job cannot be asked any more; None: it can, or files are read."""
        self._last: Alignment | None = None
        """What the last look told."""
        self._is_whole = False
        """That was all there is to say."""
        self._reader = RunReader(path, run, full)
        self._context, self._interval = context, interval
        self._seen: Comparison | None = None
        self._growth: dict[tuple[str, int], tuple[int, float, bool]] = {}
        """By run and rank: the time of the log's last line (ns, the rank's clock), when that line
        was first seen (s, this process's monotonic clock), and whether it was seen to grow."""

    def looks(self, stop: Stop) -> Iterator[Alignment | None]:
        """What is known each time the logs are read again; None while there is nothing to read.

        Ends when an error is proven, when every rank's log has come to its end, or when ``stop``
        is set. Findings that are no errors are left to :meth:`report`.

        Raises:
            LogError: there is something, and it cannot be used.

        """
        while not stop.is_set():
            began = time.monotonic()
            found = self._look()
            if self.gone is not None:
                return
            yield found
            if found is not None and (found.exit_status == 1 or self._is_over()):
                return
            took = time.monotonic() - began
            stop.wait(max(self._interval, self._memory.heartbeat, _PAUSE * took))

    def report(self) -> Alignment | None:
        """All there is to say at the last look; None: there was nothing to read."""
        if self._seen is None:
            return None
        if self._url is None:
            return judged(self._seen, self._context)
        if self.gone is None and not self._is_whole:
            self._look(brief=False)  # what is looked up for it is asked of the ranks, too
        return self._last

    def positions(self) -> list[StreamPosition]:
        """How far each rank has come in each stream at the last look, and how far all agree."""
        if self._seen is None:
            return []
        groups = self._seen.groups
        agreed = [
            StreamPosition(group=groups[key.group], device=key.device, rank=None, seq=seq)
            for key, seq in self._seen.agreed.items()
        ]
        return agreed + [
            StreamPosition(group=groups[key.group], device=key.device, rank=rank, seq=seq)
            for rank, log in self._seen.evidence.logs.items()
            for key, seq in log.last_seq.items()
        ]

    def _look(self, *, brief: bool = True) -> Alignment | None:
        try:
            with self._opened() as folder:
                seen = compared(self._reader.read(folder=folder))
                evidence = replace(seen.evidence, still_exists=self._existing(seen.evidence))
                self._seen = replace(seen, evidence=evidence)
                found = judged(self._seen, self._context, brief=brief)
                self._last, self._is_whole, self._asked = found, not brief, time.monotonic()
                if folder is not None and brief and (found.exit_status == 1 or self._is_over()):
                    # The ranks may end at any moment: all there is to say, as long as they answer.
                    self._last, self._is_whole = judged(self._seen, self._context), True
        except NotThere as problem:
            # Not written yet; or renamed while it was read, and there under its new name.
            self._lost(problem)
        except NotNow as problem:
            if time.monotonic() - self._asked > _PATIENCE:
                self._lost(problem)
        except LogError as problem:
            if self._url is None or self._seen is None:
                raise
            self._lost(problem)
        return self._last

    def _opened(self) -> AbstractContextManager[Folder | None]:
        """What is open for one look; None: files, which are found by their path."""
        if self._url is None:
            return nullcontext()
        return through_store.opened(self._url, memory=self._memory)

    def _lost(self, problem: LogError) -> None:
        """Give up a job that has been seen, and is not there any more."""
        if self._url is not None and self._seen is not None:
            self.gone = str(problem)

    def _existing(self, evidence: RunEvidence) -> Callable[[RankLog], bool | None]:
        """What is known of the processes, told by their own host or by files that grow."""
        now = time.monotonic()
        exists: dict[int, bool | None] = {}
        for rank, log in evidence.logs.items():
            key = evidence.run, rank
            last, since, moved = self._growth.get(key, (log.last_t, now, False))
            if last != log.last_t:
                since, moved = now, True
            self._growth[key] = log.last_t, since, moved
            exists[rank] = evidence.still_exists(log)
            if exists[rank] is None and moved and now - since < _patience(log):
                exists[rank] = True
        return lambda log: exists.get(log.rank)

    def _is_over(self) -> bool:
        """Whether nothing more is to come from any rank."""
        if self._seen is None:
            return False
        evidence = self._seen.evidence
        now = time.monotonic()
        quiet = {
            rank: now - self._growth[evidence.run, rank][1] >= _patience(log)
            for rank, log in evidence.logs.items()
        }
        if evidence.missing and not all(quiet.values()):
            return False  # ranks start one after the other
        return all(
            _is_final(log) or evidence.still_exists(log) is False
            or (evidence.still_exists(log) is None and quiet[rank])
            for rank, log in evidence.logs.items()
        )  # fmt: skip


def _is_final(log: RankLog) -> bool:
    """Its last line is its end; a tracer that was switched off may be switched on again."""
    return log.exit is not None and log.exit.t >= log.last_t


def _patience(log: RankLog) -> float:
    """Seconds."""
    return patience(log) / 1e9
