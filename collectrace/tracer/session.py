"""A session of tracing, from ``enable()`` to ``disable()``, and its runs.

Each ``init_process_group`` of a process begins a run. Without it, the first group that the program
constructs, or the first call, begins one. The file is created at once, as a provisional one. It
moves to the run's folder once the ranks have agreed on the run's id through their store.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import socket
import threading
from dataclasses import replace
from typing import Any, ClassVar, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace import records
from collectrace.config import OFF, Config
from collectrace.errors import DivergenceError
from collectrace.exchange import Announced, Verdict
from collectrace.log_folder import PENDING, STAMP, rank_file
from collectrace.tracer.guard import contained
from collectrace.tracer.life import mover, own_process, run_folder, spool
from collectrace.tracer.life.exit_hooks import ExitHooks
from collectrace.tracer.life.reporter import Reporter, ReporterBeside
from collectrace.tracer.life.spool import Spool
from collectrace.tracer.life.stack_dumps import StackDumps
from collectrace.tracer.life.watchdog import Watchdog, activities
from collectrace.tracer.online.member import Member, endpoint
from collectrace.tracer.record import groups, native
from collectrace.tracer.record.lines import encode
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.values.value_records import ValueRecords

_MOST_EARLY: Final = 10
"""Failures before a run that are remembered."""


class Session(native.HasRecorder):
    """Tracing from ``enable()`` to ``disable()``, with at most one run at a time."""

    runs: ClassVar[int] = 0
    """Runs begun in this process so far, by all its sessions."""
    start: ClassVar[str] = secrets.token_hex(8)
    """Identifies this process and its forks among all processes."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        # Absolute from now on: a script may change its folder before the run begins.
        self.config = config.absolute()
        self.code = native.chosen(wanted=self.config.native)
        """The code that records calls."""
        self.live = True
        """False: disabled. Wrappers that could not be removed then only pass calls on."""
        self.rank: int | None = None
        """Global rank; until the ranks meet, the launcher's value, if any."""
        self.world_size: int | None = None
        """Ranks in the run, likewise."""
        self.run: str | None = None
        """Id of the run; None until the ranks have met."""
        self.over = False
        """Whether the run's default group was destroyed; a new one would begin another run."""
        self.by_hand = False
        """Whether the run has no default group; one would begin another run."""
        self.targets: list[str] = []
        """Functions that are patched, as in a header."""
        self.unfamiliar = records.Unfamiliar()
        """What the tracer does not know about this torch."""
        self.exit_hooks = ExitHooks(self)
        self._early: list[tuple[Exception, str]] = []
        """Failures of the tracer since the last run, and what it was doing."""
        self._finished = False
        """Whether the end of the run's record has begun."""
        self._is_fork = False
        """Whether this process was forked: then its groups and stores are its parent's."""
        self._beginning = threading.RLock()
        """Held while a run begins: ranks that are threads begin at the same time."""
        self.in_no_sync: set[int] = set()
        """The ``id`` of each DDP model that is inside its ``no_sync()``."""
        self.values: ValueRecords | None = None
        """Reads the values of variables, for the run in progress."""
        self._watchdog: Watchdog | None = None
        self._member: Member | None = None
        """Compares this rank with others during the run; None: that is off or impossible."""
        self._reporter: Reporter | None = None
        """Compares the ranks when this one stalls or fails; None: that is not wanted."""
        self._stack_dumps: StackDumps | None = None

    def count_failure(self, problem: Exception, doing: str) -> None:
        """Count a failure of the tracer, see :meth:`Recorder.count_failure`.

        Without a run, it is counted in the next one.
        """
        if self.recorder is not None:
            self.recorder.count_failure(problem, doing)
        elif len(self._early) < _MOST_EARLY:
            self._early.append((problem.with_traceback(None), doing))

    def not_found(self, where: str) -> None:
        """Note that this torch lacks a function that all known versions have."""
        self.unfamiliar.targets.append(where.removeprefix("torch."))
        if self.recorder is not None:
            self.recorder.write_repeated(replace(self.unfamiliar))

    # -- runs -----------------------------------------------------------------------------

    def begin(self, rank: int | None, world_size: int | None) -> Recorder:
        """Begin a run with a provisional file, unless one is in progress; return its recorder.

        ``rank`` and ``world_size``: those from the launcher, if known.
        """
        with self._beginning:
            return self._begin(rank, world_size)

    def _begin(self, rank: int | None, world_size: int | None) -> Recorder:
        if self.recorder is not None:
            if not self.over and not self.by_hand:
                return self.recorder
            self.finish(records.Exit(reason="finished"))
        recorder = self._open(rank, world_size)
        self.values = ValueRecords(recorder, self.config.values, lambda: self.run)
        self._watchdog = Watchdog(recorder, self.config, self.values)
        self._watchdog.start()
        self.exit_hooks.watch_child()
        return recorder

    def _open(self, rank: int | None, world_size: int | None) -> Recorder:
        """Begin the record of a run, as a provisional file."""
        Session.runs += 1
        self.rank, self.world_size, self.run = rank, world_size, None
        self.over = self.by_hand = self._finished = False
        name = f"{socket.gethostname()}-{os.getpid()}-{Session.runs}.jsonl"
        made = spool.begin(self.config)
        folder = self.config.log_dir if made is None else made.folder
        writer = Writer(folder / PENDING / name, self.config.max_bytes, self._preamble, made)
        sources = None
        if self.config.sources != OFF:
            sources = Sources(self.config.sources, int(self.config.heartbeat * 1e9))
        self.recorder = Recorder(writer, self.config.max_failures, sources=sources)
        self.recorder.global_rank = rank
        self.code.install(self.recorder)
        if self.unfamiliar.ops or self.unfamiliar.targets:
            self.recorder.repeat(replace(self.unfamiliar, t=now()))
        self._member = self._watchdog = self.values = self._reporter = None
        early, self._early = self._early, []
        for problem, doing in early:
            self.recorder.count_failure(problem, doing)
        return self.recorder

    def _begin_at_end(self, last: records.Exit) -> Recorder | None:
        """Begin the record of a rank that fails before its first group; None: it is not one.

        There is no watchdog, as no thread can be started when the interpreter exits.
        """
        has_failed = last.reason == "exception" or last.code
        if not has_failed or last.is_interrupt or self._finished or self._is_fork or not self.live:
            return None
        rank = own_process.launched_as()
        return None if rank is None else self._open(rank, groups.environment_int("WORLD_SIZE"))

    def begin_by_hand(self, store: Any, rank: int, size: int) -> Recorder | None:
        """Begin a run with a group from outside ``init_process_group``, unless one is in progress.

        ``store``: that of the group, None if it is unknown; ``rank`` and ``size``: those of the
        group. If the launcher has started more ranks, its numbers are used. This does not wait for
        other ranks. Return None if nothing must be recorded any more.
        """
        with self._beginning:
            if self.recorder is not None or self._finished or not self.live:
                return self.recorder
            of_job = groups.environment_int("RANK"), groups.environment_int("WORLD_SIZE")
            if of_job[0] is not None and of_job[1] is not None and of_job[1] > size:
                rank, size = of_job[0], of_job[1]
            recorder = self._begin(rank, size)
            self.by_hand = True
            # Groups of some ranks have sub-stores of the one that all ranks share.
            self.move_to_run(getattr(store, "_underlying_non_prefix_store", store), rank, size)
            return recorder

    def begin_by_call(self, pg: Any) -> Recorder | None:
        """Begin a run with a call on a group with an unseen creation, see ``HasRecorder``."""
        if self._is_fork or self._finished or not self.live:
            return None
        try:
            store = pg.get_group_store() if hasattr(pg, "get_group_store") else None
        except Exception:
            store = None  # a group written in Python may have none
        try:
            return self.begin_by_hand(store, pg.rank(), pg.size())
        except Exception as problem:
            self.count_failure(problem, "beginning a run")
            return self.recorder

    def is_other_rank(self) -> bool:
        """Return whether the calling thread is, or is about to be, another rank than the run's."""
        recorder = self.recorder
        if recorder is None or self.over:
            return False
        return recorder.book.is_other_rank(may_begin=True)

    def move_to_run(self, store: Any, rank: int, world_size: int) -> None:
        """Agree on the run's id with the other ranks, and continue in its folder.

        ``store`` is that of the default group, ``rank`` the global rank. This does not wait for
        other ranks.
        """
        recorder = self.recorder
        if recorder is None:
            return
        self.rank, self.world_size = rank, world_size
        recorder.global_rank, recorder.world_size = rank, world_size
        # One rank of every machine writes at once, as each machine may have its own log folder.
        local_rank = groups.environment_int("LOCAL_RANK")
        recorder.writes_texts = (rank if local_rank is None else local_rank) == 0
        self.run = self._agree(store)
        with recorder.lock:
            at = recorder.writer.spool
            path = (self.config.log_dir if at is None else at.folder) / self.run / rank_file(rank)
            # For a spool, the mover checks whether another process has taken the name.
            recorder.writer.move(path if at is not None else run_folder.unused(path))
        self._stack_dumps = StackDumps(recorder.writer.path)
        try:
            self._stack_dumps.open()
            if self._watchdog is not None:
                self._watchdog.write_blind_spots()
                self._watchdog.arm(self._stack_dumps)
        except OSError as problem:
            recorder.count_beside(problem, "preparing for a crash")
        self._take_part(store)
        self._report_by_itself()
        if rank == 0:
            run_folder.begin(self.config, recorder, first=Session.runs == 1)

    def _take_part(self, store: Any) -> None:
        """Start to compare this rank with the others during the run, if wanted and possible."""
        recorder, watchdog, world_size = self.recorder, self._watchdog, self.world_size or 0
        at = endpoint(store)
        if not self.config.online or at is None or world_size < 2:
            return
        if recorder is None or watchdog is None or self.run is None or self.rank is None:
            return
        announced = Announced(self.run, world_size, float(self.config.heartbeat))
        self._member = Member(
            recorder, announced, self.rank, at, lambda: watchdog.stalls, self._act_upon, self.values
        )
        self._member.start()

    def _report_by_itself(self) -> None:
        """Compare the ranks when this one stalls or fails, if wanted."""
        recorder, watchdog, world_size = self.recorder, self._watchdog, self.world_size or 0
        if not self.config.report or self._member is not None or world_size < 2:
            return
        if recorder is None or watchdog is None or self.rank is None:
            return
        kind = Reporter if recorder.writer.spool is None else ReporterBeside
        self._reporter = kind(recorder, self.rank, world_size, self.config.stall_after)
        watchdog.reporter = self._reporter

    def _act_upon(self, verdict: Verdict) -> None:
        """Do what ``on_divergence`` says about a verdict, if it is proven."""
        recorder = self.recorder
        if recorder is None or not verdict.is_proven:
            return
        if self.config.on_divergence == "raise":
            recorder.refuse_calls(lambda: DivergenceError(verdict.headline))
        elif self.config.on_divergence == "exit":
            error, message = DivergenceError.__name__, verdict.headline
            self.finish(records.Exit(reason="exception", error=error, message=message))
            os._exit(1)  # no other way ends a thread that hangs in C++

    def finish(self, last: records.Exit) -> None:
        """End the run with this record; a rank that fails without a run gets one first."""
        recorder = self.recorder or self._begin_at_end(last)
        if recorder is None or self._finished:
            return
        self._finished = True
        try:
            self._end(recorder, last)
        except Exception as problem:
            recorder.count_beside(problem, "ending the record")
            with contextlib.suppress(Exception):
                recorder.end(last)  # without it, the rank would seem to have been killed
        finally:
            recorder.active = False
            self.recorder = None
            doing = "ending the record"
            with contained(recorder.count_beside, doing), contextlib.ExitStack() as rest:
                if isinstance(recorder.writer.spool, Spool):
                    rest.callback(recorder.writer.spool.finish)
                rest.callback(recorder.writer.close)
                rest.callback(recorder.book.forget_all)
                rest.callback(recorder.works.forget_all)
                if self._member is not None:
                    has_failed = last.reason == "exception" and not last.is_interrupt
                    rest.callback(self._member.leave, failed=has_failed)

    def explain(self, last: records.Exit) -> bool:
        """Start to compare the ranks if an exception ended the record; return whether started."""
        if self._reporter is None or last.reason != "exception" or last.is_interrupt:
            return False
        return self._reporter.explain()

    def linger(self) -> bool:
        """Leave the record with the store, wait for a verdict, and return whether it was printed.

        Called at the end of the process.
        """
        if self._member is not None:
            self._member.linger()
        return self._reporter is not None and self._reporter.linger()

    def _end(self, recorder: Recorder, last: records.Exit) -> None:
        if self._member is not None:
            self._member.end()
        if self._watchdog is not None:
            self._watchdog.stop()
        if recorder.sources is not None:
            recorder.sources.ask([one for one in (last.site, *last.through) if one])
        recorder.write_sources(at_last=True)
        if self._watchdog is not None:
            self._watchdog.write_blind_spots()
        recorder.active = False
        last.in_ = activities(recorder)
        if last.reason == "finished":
            recorder.works.mark_rest_unwaited()
        with recorder.lock:
            recorder.writer.check()
            self.write_progress()
            recorder.end(last)
        if self._stack_dumps is not None:
            self._stack_dumps.close()

    def write_progress(self) -> None:
        """Write the completed calls and a checkpoint, as there may be no later chance."""
        if self.recorder is not None and self._watchdog is not None:
            self._watchdog.poll()
            self._watchdog.write_watermarks()
            with self.recorder.lock:
                self.recorder.checkpoint()

    def after_fork(self) -> None:
        """Forget the run in a forked child: file, counters and threads are the parent's."""
        if self.recorder is not None:
            self.recorder.active = False
            self.recorder.writer.close()
        if self._stack_dumps is not None:
            self._stack_dumps.unregister()
        self.recorder = self._watchdog = self._stack_dumps = self._member = self.values = None
        self._reporter = None
        Session.runs = 0
        self._finished = False
        self._is_fork = True
        self._beginning = threading.RLock()

    def join_late(self) -> None:
        """Begin a run with the groups that existed before tracing was enabled."""
        default = c10d._get_default_group()
        rank, world_size = dist.get_rank(), dist.get_world_size()
        recorder = self.begin(rank, world_size)
        for pg in list(c10d._world.pg_map):
            recorder.adopt(pg, start_seq=groups.backend_sequence(pg))
            recorder.book.asked += 1
        recorder.book.use_default(default)
        self.move_to_run(c10d._world.pg_map[default][1], rank, world_size)

    def _agree(self, store: Any) -> str:
        """Return the run's id: the candidate of the first rank at the store.

        If the store fails, it is this rank's candidate.
        """
        stamp = datetime.datetime.now(tz=datetime.UTC).strftime(STAMP)
        candidate = f"{stamp}-{secrets.token_hex(3)}"
        # torchrun's store survives a second init_process_group and a restart of all workers, so
        # both need new keys. The store counts this process's runs under its prefix. A worker that
        # joins a running job has begun fewer runs in total, but as many under a new prefix.
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            begun = store.add(f"collectrace/begun/{Session.start}-{os.getpid()}", 1)
            agreed = store.compare_set(f"collectrace/run/{restarts}/{begun}", "", candidate)
        except Exception:
            return candidate
        text = agreed.decode() if isinstance(agreed, bytes) else str(agreed)
        return text or candidate

    # -- the head of a segment ------------------------------------------------------------

    def _preamble(self, segment: int) -> bytes:
        """Return the first lines of a segment: header, groups, and what is repeated."""
        lines = [encode(self._header(segment))]
        recorder = self.recorder
        if recorder is not None:
            if segment or recorder.calls:
                lines += [encode(g.record) for g in list(recorder.book.states.values())]
            lines += recorder.head()
        return b"".join(lines)

    def _file(self) -> dict[str, Any]:
        """Return the header's fields about its file."""
        if self.recorder is None:
            return {}
        writer = self.recorder.writer
        if writer.spool is None:
            return {"inode": writer.inode}
        return {"inode": mover.INODE, "spool": str(writer.current)}

    def _header(self, segment: int) -> records.Header:
        return own_process.header(
            run=self.run,
            rank=self.rank,
            world_size=self.world_size,
            segment=segment,
            heartbeat=self.config.heartbeat,
            stall_after=self.config.stall_after,
            keep_runs=self.config.keep_runs,
            code=self.code.name,
            **self._file(),
            omitted=list(self.config.omitted) or None,
            targets=[] if segment else [t.removeprefix("torch.") for t in self.targets],
        )
