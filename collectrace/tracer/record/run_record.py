"""The record of a run without its calls: other lines, checkpoints, failures, and its end."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from collectrace import records
from collectrace.chain import checkpoint_gap
from collectrace.log_folder import PENDING
from collectrace.tracer.guard import is_users
from collectrace.tracer.record import groups, lines
from collectrace.tracer.record.groups import GroupBook, GroupState
from collectrace.tracer.record.repeated import Repeated
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.stacks import Stacks
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.user_objects import type_name
from collectrace.tracer.user_text import safe_text

log = logging.getLogger("collectrace")

_AT_ONCE: Final = 1.0
"""Seconds for reading sources between two heartbeats."""
_AT_LAST: Final = 5.0
"""Seconds for reading sources at the end of the record."""

MAX_TEXT: Final = 500
"""Characters of an exception's text that are recorded."""


class RunRecord:
    """The record of one run of this process, and the tracer's failures.

    After ``max_failures`` failures of the tracer it records no more.
    """

    __slots__ = ("__dict__", "__weakref__", "active", "calls", "ns")  # read by offset in _native.c

    def __init__(
        self, writer: Writer, max_failures: int, *, sources: Sources | None = None
    ) -> None:
        self.writer = writer
        self.book = GroupBook()
        self.lock = threading.RLock()
        """Held while lines are numbered and written. It is reentrant, as a signal handler may issue
        a collective while another is being recorded."""
        self.active = True
        """False: nothing is recorded any more."""
        self.ended = False
        """Whether its last line is written."""
        self.global_rank: int | None = None
        """None until the ranks have met."""
        self.world_size: int | None = None
        """Likewise."""
        self.sources = sources
        """None: the record contains no source lines of the program."""
        self.stacks = Stacks(self.write_repeated, self.lock, self.sources)
        self.writes_texts = False
        """Whether this rank writes the program's sources without waiting for others to do so."""
        self._repeated = Repeated()
        self.calls = 0
        """Calls recorded."""
        self.ns = 0
        """Time spent on recording, ns."""
        self.failures = 0
        """Internal failures."""
        self._faults: set[tuple[str, str]] = set()
        """Recorded failures: what the tracer was doing, and the type of the exception."""
        self._max_failures = max_failures

    @property
    def folder(self) -> Path | None:
        """Return the folder of the run's files; None until the ranks have met."""
        folder = self.writer.path.parent
        return None if folder.name == PENDING else folder

    def write(self, record: records.Record) -> None:
        """Write a record other than a call, with the present time unless it has one."""
        if self.book.is_other_rank():
            return
        with self.lock:
            t = now()
            if not record.t:
                record.t = t
            self.writer.write(lines.encode(record))
            self.ns += now() - t

    def adopt(self, pg: Any, **known: Any) -> GroupState | None:
        """Record and return a group with an unseen creation, such as one that C++ created.

        ``known``: fields of its record that torch does not know.
        Return None if the calling thread is another rank, or if the group's members are unknown.
        Without them its calls could be compared with those of wrong ranks.
        """
        if self.book.is_other_rank() or pg in self.book.strange:
            return None
        ranks = groups.members(pg, self.world_size)
        name = groups.c10d_name(pg)
        if ranks is None:
            self.book.strange.add(pg)
            log.warning(
                "collectrace: the calls of group %s are not recorded: which %d of the %s ranks it"
                " has is not known, for the program constructed it by itself.",
                name, pg.size(), self.world_size,
            )  # fmt: skip
            return None
        record = groups.ready_record(
            pg, self.book.name_of(name), ranks, ordinal=self.book.asked, **known
        )
        self.write(record)
        return self.book.adopt(pg, record)

    def write_sources(self, *, at_last: bool) -> None:
        """Record the sources of the lines that calls have come from since the last time.

        ``at_last``: the process ends, and nothing can be left for later.
        """
        if self.sources is None or not self.active:
            return
        try:
            for record in self.sources.take(_AT_LAST if at_last else _AT_ONCE):
                self.write_repeated(record)
            if self.folder is not None:
                at_once = at_last or self.writes_texts
                self.sources.texts.write(self.folder, now(), at_once=at_once)
        except Exception as problem:
            self.sources = None  # calls are still recorded, and it must not fail repeatedly
            self.count_beside(problem, "reading source lines")

    def checkpoint(self) -> None:
        """Write the position of every stream and channel."""
        line = self.checkpoint_line()
        self.writer.next_checkpoint = self.writer.total + checkpoint_gap(len(line))
        self.writer.write(line)

    def checkpoint_line(self, known_stacks: int | None = None) -> bytes:
        """Return the line of a checkpoint; ``known_stacks`` is the present number by default."""
        states = list(self.book.states.values())
        return lines.encode(
            records.Checkpoint(
                t=now(),
                # A stream that is new, or that had only a refused call, has no position.
                streams=[s.row() for g in states for s in list(g.streams.values()) if s.seq],
                channels=[c.row() for g in states for c in list(g.channels.values()) if c.seq],
                known_stacks=self.stacks.known if known_stacks is None else known_stacks,
                dropped=self.writer.dropped,
                failures=self.failures,
                rotated=self.writer.rotated,
            )
        )

    def write_repeated(self, record: records.Record) -> None:
        """Write a record now, and again at the head of each later segment."""
        with self.lock:
            began = record.t = now()
            line = lines.encode(record)
            self._repeated.add(line, self.stacks.known)
            self.writer.write(line)
            self.ns += now() - began

    def repeat(self, record: records.Record) -> None:
        """Write a record at the head of each later segment."""
        with self.lock:
            self._repeated.add(lines.encode(record), self.stacks.known)

    def head(self) -> Iterator[bytes]:
        """Yield the first lines of a segment, after its header and the groups."""
        yield from self._repeated.head(self.writer.segment_bytes // 4, self.checkpoint_line)
        yield self.checkpoint_line()

    def count_beside(self, problem: BaseException, doing: str) -> None:
        """Count an internal failure that does not affect the record of calls."""
        self.count_failure(problem, doing, is_beside=True)

    def count_failure(self, problem: BaseException, doing: str, *, is_beside: bool = False) -> None:
        """Count an internal failure: warn of the first, stop recording after too many.

        ``doing`` names what failed, as in "recording a batch"; ``is_beside``: the failure does not
        affect the record of calls.

        Raises:
            BaseException: ``problem`` itself, if a signal handler of the program raised it.
        """
        if is_users(problem):
            raise problem
        self.failures += 1
        if self.failures == 1:
            log.warning(
                "collectrace: internal failure while %s: %s: %s. Training goes on untouched.",
                doing, type_name(problem), safe_text(problem, MAX_TEXT),
            )  # fmt: skip
        with contextlib.suppress(Exception):  # writing may be what fails
            self._write_fault(problem, doing, is_beside=is_beside)
        if self.failures >= self._max_failures and self.active:
            self.give_up(problem)

    def _write_fault(self, problem: BaseException, doing: str, *, is_beside: bool) -> None:
        error = type_name(problem)
        if not self.active or (doing, error) in self._faults:
            return
        self._faults.add((doing, error))
        # The failure may concern the calling thread's latest call.
        since = None if is_beside else local.state.call_t or now()
        text = safe_text(problem, MAX_TEXT)
        self.write_repeated(records.Fault(doing=doing, error=error, message=text, since=since))

    def give_up(self, problem: BaseException) -> None:
        """Record no more, and end the file, as later records could not be trusted."""
        self.active = False
        last = records.Exit(
            reason="disabled", error=type_name(problem), message=safe_text(problem, MAX_TEXT)
        )
        with contextlib.suppress(Exception):  # writing may be what fails
            self.end(last)

    def end(self, last: records.Exit) -> None:
        """Write the line that ends the file, unless it has one already.

        Nothing can be written after it.
        """
        with self.lock:
            if self.ended:
                return
            self.add_bill(last)
            last.t = now()
            self.writer.finish(lines.encode(last))
            self.ended = True

    def add_bill(self, last: records.Exit) -> None:
        """Enter the costs and losses of tracing so far."""
        last.calls, last.ns, last.failures = self.calls, self.ns, self.failures
        last.bytes, last.dropped = self.writer.total, self.writer.dropped
