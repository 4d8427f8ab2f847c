"""Follow a running job: read its logs repeatedly until there is an error or an end."""

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
from collectrace.config import BUSY
from collectrace.errors import LogError, NotNow, NotThere
from collectrace.exchange import SCHEME
from collectrace.findings import Alignment, proven_errors
from collectrace.views import StreamPosition

INTERVAL: Final = 1.0
"""Seconds between two reads."""

_PAUSE: Final = 4
"""Pause at least this many times as long as the last read took: the job needs the machine."""

_PATIENCE: Final = 120.0
"""Seconds without an answer from the ranks that are accepted: longer than the job's own
diagnoses."""


class Stop(Protocol):
    """Requests that no further read is made: the part of ``threading.Event`` that is needed."""

    def is_set(self) -> bool:
        """Return whether the stop was requested."""

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for the request; return whether it was made."""


class Follower:
    """Diagnoses a run while it is written.

    It takes what :func:`collectrace.align.align` takes, or the URL of a running job's store (see
    ``reading.through_store``), and ``interval``, the seconds between two reads of the logs. Each
    read gets what the ranks have written since the one before. Ranks are not queried more often
    than they write heartbeats.
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
        """When the ranks last answered, by this process's monotonic clock."""
        self.gone: str | None = None
        """Why the job cannot be queried any more; None: it can, or files are read."""
        self._last: Alignment | None = None
        """The result of the last read."""
        self._is_whole = False
        """That result is complete, not brief."""
        self._reader = RunReader(path, run, full)
        self._context, self._interval = context, interval
        self._seen: Comparison | None = None
        self._growth: dict[tuple[str, int], tuple[int, float, bool]] = {}
        """By run and rank: the time of the log's last line (ns, the rank's clock); when that line
        was first seen (s, this process's clock); whether the log grew."""

    def looks(self, stop: Stop) -> Iterator[Alignment | None]:
        """Yield the diagnosis each time the logs are read; None while there is nothing to read.

        Ends when an error is proven, when every rank's log has ended, or when ``stop`` is set.
        Observations are left to :meth:`report`.

        Raises:
            LogError: there are logs, and they cannot be used.

        """
        while not stop.is_set():
            began = time.monotonic()
            found = self._look()
            if self.gone is not None:
                return
            yield found
            if found is not None and (self._is_proven(found) or self._is_over()):
                return
            took = time.monotonic() - began
            stop.wait(max(self._interval, self._memory.heartbeat, _PAUSE * took))

    def report(self) -> Alignment | None:
        """Return the complete diagnosis of the last read; None if there was nothing to read."""
        if self._seen is None:
            return None
        if self._url is None:
            return judged(self._seen, self._context)
        if self.gone is None and not self._is_whole:
            self._look(brief=False)  # the lookups for it are requested from the ranks, too
        return self._last

    def positions(self) -> list[StreamPosition]:
        """Return the last call of each rank in each stream at the last read.

        Positions without a rank give the last call on which all agree.
        """
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
                if folder is not None and brief and (self._is_proven(found) or self._is_over()):
                    # The ranks may end at any moment: get the complete diagnosis while they answer.
                    self._last, self._is_whole = judged(self._seen, self._context), True
        except NotThere as problem:
            # Not written yet; or renamed while it was read, and available under its new name.
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
        """Return the folder to read this once; None for files, which are found by their path."""
        if self._url is None:
            return nullcontext()
        return through_store.opened(self._url, memory=self._memory)

    def _lost(self, problem: LogError) -> None:
        """Give up a job that was seen before and is not available any more."""
        if self._url is not None and self._seen is not None:
            self.gone = str(problem)

    def _existing(self, evidence: RunEvidence) -> Callable[[RankLog], bool | None]:
        """Return whether processes exist, by their own host or by files that grow."""
        now = time.monotonic()
        exists: dict[int, bool | None] = {}
        for rank, log in evidence.logs.items():
            key = evidence.run, rank
            last, since, moved = self._growth.get(key, (log.last_t, now, False))
            if last != log.last_t:
                since, moved = now, True
            self._growth[key] = log.last_t, since, moved
            exists[rank] = evidence.still_exists(log)
            if exists[rank] is None and moved and now - since < patience(log) / 1e9:
                exists[rank] = True
        return lambda log: exists.get(log.rank)

    def _is_proven(self, found: Alignment) -> bool:
        """Return whether there is an error that long work of a rank does not explain."""
        logs = self._seen.evidence.logs.values() if self._seen is not None else ()
        patience = BUSY * max((log.header.stall_after for log in logs), default=0.0)
        return bool(proven_errors(found, patience))

    def _is_over(self) -> bool:
        """Return whether no rank will write anything more."""
        if self._seen is None:
            return False
        evidence = self._seen.evidence
        now = time.monotonic()
        quiet = {
            rank: now - self._growth[evidence.run, rank][1] >= patience(log) / 1e9
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
    """Return whether the last line reports an end; a tracer that was off may be on again."""
    return log.exit is not None and log.exit.t >= log.last_t
