"""One stretch of tracing, from ``enable()`` to ``disable()``, and the runs that fall into it.

Each ``init_process_group`` of a process begins a run; without one, the first group that the program
constructs by itself, or the first call. Its file is begun as soon as a process group
is asked for: a provisional one first, and in the run's folder once the ranks have agreed on the
run's id, through the store that they met at.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import socket
import threading
from dataclasses import replace
from pathlib import Path
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
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.values.value_records import ValueRecords

_MOST_EARLY: Final = 10
"""Failures before a run that are remembered."""


class Session(native.HasRecorder):
    """Tracing as it was enabled once, until it is disabled: at most one run at a time."""

    runs: ClassVar[int] = 0
    """Runs begun in this process so far, by this session and others before it."""
    start: ClassVar[str] = secrets.token_hex(8)
    """Tells this process, and what it forks, from all others."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        # Absolute from now on: a script may change its folder before it meets the others.
        self.config = config.absolute()
        self.code = native.chosen(wanted=self.config.native)
        """The code that records calls."""
        self.live = True
        """False: disabled. What could not be taken off then only passes calls through."""
        self.rank: int | None = None
        """Global rank; until the ranks meet what the launcher says, if it does."""
        self.world_size: int | None = None
        """Ranks in the run, likewise."""
        self.run: str | None = None
        """Id of the run; None until the ranks have met."""
        self.over = False
        """The run's default group was destroyed; a new one would begin another run."""
        self.by_hand = False
        """The run has no default group, and one would begin another run."""
        self.targets: list[str] = []
        """Functions that are patched, as in a header."""
        self.unfamiliar = records.Unfamiliar()
        """What of this torch is not known."""
        self.exit_hooks = ExitHooks(self)
        self._early: list[tuple[Exception, str]] = []
        """Failures of the tracer's own since the last run, and what it was doing."""
        self._finished = False
        """The end of the run's record has begun: nothing begins it again."""
        self._is_fork = False
        """This process was forked: the groups it has are its parent's, and so are their stores."""
        self._beginning = threading.RLock()
        """Held while a run begins: ranks that are threads begin at the same time."""
        self.values: ValueRecords | None = None
        """Reads what variables hold, for the run in progress."""
        self._watchdog: Watchdog | None = None
        self._member: Member | None = None
        """This rank among those that compare notes; None: it does without."""
        self._reporter: Reporter | None = None
        """Has the ranks compared when this one stalls or fails; None: it does not."""
        self._stack_dumps: StackDumps | None = None

    def count_failure(self, problem: Exception, doing: str) -> None:
        """Count a failure of the tracer's own, see :meth:`Recorder.count_failure`.

        Without a run it is counted in the next one.
        """
        if self.recorder is not None:
            self.recorder.count_failure(problem, doing)
        elif len(self._early) < _MOST_EARLY:
            self._early.append((problem.with_traceback(None), doing))

    def not_found(self, where: str) -> None:
        """Take note that every torch known so far has this function, and this one has not."""
        self.unfamiliar.targets.append(where.removeprefix("torch."))
        if self.recorder is not None:
            self.recorder.write_repeated(replace(self.unfamiliar))

    # -- runs -----------------------------------------------------------------------------

    def begin(self, rank: int | None, world_size: int | None) -> Recorder:
        """Begin a run, since a process group is about to be made, unless one is in progress.

        ``rank`` and ``world_size``: what the process was launched with, if that is known. From
        now on there is a file, a provisional one.
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
        """Begin the record of a rank that fails before it asks for a group; None: it is no such.

        Nothing is watched: when an interpreter exits, no thread can be started.
        """
        has_failed = last.reason == "exception" or last.code
        if not has_failed or last.is_interrupt or self._finished or self._is_fork or not self.live:
            return None
        rank = own_process.launched_as()
        return None if rank is None else self._open(rank, groups.environment_int("WORLD_SIZE"))

    def begin_by_hand(self, store: Any, rank: int, size: int) -> Recorder | None:
        """Begin a run with a group that ``init_process_group`` has no part in, unless one is on.

        ``store``: that of the group, None where it is not known; ``rank`` and ``size``: its own
        numbers. They are those of the job, unless the launcher has started more ranks than that.
        Waits for nobody. None: nothing is to be recorded any more.
        """
        with self._beginning:
            if self.recorder is not None or self._finished or not self.live:
                return self.recorder
            of_job = groups.environment_int("RANK"), groups.environment_int("WORLD_SIZE")
            if of_job[0] is not None and of_job[1] is not None and of_job[1] > size:
                rank, size = of_job[0], of_job[1]
            recorder = self._begin(rank, size)
            self.by_hand = True
            # Groups of some of the ranks have stores of their own within the one they all know.
            self.move_to_run(getattr(store, "_underlying_non_prefix_store", store), rank, size)
            return recorder

    def begin_by_call(self, pg: Any) -> Recorder | None:
        """Begin a run with a call on a group whose creation was not seen, see ``HasRecorder``."""
        if self._is_fork or self._finished or not self.live:
            return None
        try:
            store = pg.get_group_store() if hasattr(pg, "get_group_store") else None
        except Exception:
            store = None  # one written in Python need not have any
        try:
            return self.begin_by_hand(store, pg.rank(), pg.size())
        except Exception as problem:
            self.count_failure(problem, "beginning a run")
            return self.recorder

    def is_other_rank(self) -> bool:
        """Whether the calling thread is another rank than the run's, or is about to be one."""
        recorder = self.recorder
        if recorder is None or self.over:
            return False
        return recorder.book.is_other_rank(may_begin=True)

    def move_to_run(self, store: Any, rank: int, world_size: int) -> None:
        """Agree on the run's id with the other ranks, and go on in its folder.

        ``store`` is the one that the ranks of the default group have met at, ``rank`` the global
        rank. Waits for nobody.
        """
        recorder = self.recorder
        if recorder is None:
            return
        self.rank, self.world_size = rank, world_size
        recorder.global_rank, recorder.world_size = rank, world_size
        # Somebody is to write at once, on every machine: its folder may be on a disk of its own.
        local_rank = groups.environment_int("LOCAL_RANK")
        recorder.writes_texts = (rank if local_rank is None else local_rank) == 0
        self.run = self._agree(store)
        with recorder.lock:
            at = recorder.writer.spool
            path = (self.config.log_dir if at is None else at.folder) / self.run / rank_file(rank)
            # Who moves a spool's files finds out whether another process has taken the name.
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
        """Compare notes with the other ranks, where that is wanted and possible."""
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
        """Have the ranks compared when this one stalls or fails, where that is wanted."""
        recorder, watchdog, world_size = self.recorder, self._watchdog, self.world_size or 0
        if not self.config.report or self._member is not None or world_size < 2:
            return
        if recorder is None or watchdog is None or self.rank is None:
            return
        kind = Reporter if recorder.writer.spool is None else ReporterBeside
        self._reporter = kind(recorder, self.rank, world_size, self.config.stall_after)
        watchdog.reporter = self._reporter

    def _act_upon(self, verdict: Verdict) -> None:
        """An error was found: do what was asked for, if it is proven."""
        recorder = self.recorder
        if recorder is None or not verdict.is_proven:
            return
        if self.config.on_divergence == "raise":
            recorder.refuse_calls(lambda: DivergenceError(verdict.headline))
        elif self.config.on_divergence == "exit":
            error, message = DivergenceError.__name__, verdict.headline
            self.finish(records.Exit(reason="exception", error=error, message=message))
            os._exit(1)  # a thread that hangs in C++ can be ended in no other way

    def finish(self, last: records.Exit) -> None:
        """End the run in progress, or the one of a rank that fails without one, with this line."""
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
        """The record has ended: have the ranks compared if an exception was why."""
        if self._reporter is None or last.reason != "exception" or last.is_interrupt:
            return False
        return self._reporter.explain()

    def linger(self) -> bool:
        """The process ends: leave with the other ranks what they may ask for, and hear the verdict.

        Whether a person was told of it.
        """
        if self._member is not None:
            self._member.linger()
        return self._reporter is not None and self._reporter.linger()

    def _end(self, recorder: Recorder, last: records.Exit) -> None:
        if self._member is not None:
            self._member.end()
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog.write_sources(at_last=True)
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

    @property
    def folder(self) -> Path | None:
        """Where the record of the run in progress lies; None: there is none."""
        return self.recorder.writer.folder if self.recorder is not None else None

    def issued_since(self, t: int) -> bool:
        """Whether a call was issued after ``t``, ns."""
        return self.recorder is not None and self.recorder.last_t > t

    def thread_raised(self, value: BaseException) -> bool:
        """Write that an exception ends the calling thread. False: it has issued no call."""
        if self.recorder is None:
            return False
        has_issued = bool(local.state.call_t)
        self.recorder.left_by(value, records.THREAD if has_issued else records.OTHER_THREAD)
        return has_issued

    def write_progress(self) -> None:
        """Write what has completed and where the streams stand, since no later chance is sure."""
        if self.recorder is not None and self._watchdog is not None:
            self._watchdog.poll()
            self._watchdog.write_watermarks()
            with self.recorder.lock:
                self.recorder.checkpoint()

    def after_fork(self) -> None:
        """In a forked child: have no run, since file, counters and threads are the parent's."""
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
        """Begin a run with the groups that exist already: tracing was enabled after they were."""
        default = c10d._get_default_group()
        rank, world_size = dist.get_rank(), dist.get_world_size()
        recorder = self.begin(rank, world_size)
        for pg in list(c10d._world.pg_map):
            name = recorder.book.name_of(groups.c10d_name(pg))
            start = groups.backend_sequence(pg)
            ranks = groups.members(pg, world_size) or []
            record = groups.ready_record(
                pg, name, ranks, ordinal=recorder.book.asked, start_seq=start
            )
            recorder.book.asked += 1
            recorder.write(record)
            recorder.book.adopt(pg, record)
        recorder.book.default = default
        self.move_to_run(c10d._world.pg_map[default][1], rank, world_size)

    def _agree(self, store: Any) -> str:
        """The run's id: the candidate of the rank that comes first to the store.

        This rank's own where the store cannot tell.
        """
        stamp = datetime.datetime.now(tz=datetime.UTC).strftime(STAMP)
        candidate = f"{stamp}-{secrets.token_hex(3)}"
        # torchrun's store outlives a second init_process_group and a restart of all workers: the
        # keys of either must differ. How often this process has begun is counted where its keys
        # are: who joins a running job has begun less often, but not under a prefix that is new.
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
        """The first lines of a segment: header, groups, and where the streams stand."""
        lines = [encode(self._header(segment))]
        recorder = self.recorder
        if recorder is not None:
            if segment or recorder.calls:
                lines += [encode(g.record) for g in list(recorder.book.states.values())]
            lines += recorder.head()
        return b"".join(lines)

    def _file(self) -> dict[str, Any]:
        """What a header says of the file that it is in."""
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
