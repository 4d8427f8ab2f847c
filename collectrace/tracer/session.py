"""One stretch of tracing: attached to a run, moved to its folder, ended.

A process is traced from ``enable()`` on; it has a file from the moment it asks for a process
group, first a provisional one, then the run's, whose id the ranks agree on through the store
they met at. Each ``init_process_group`` of a process begins a run of its own.
"""

from __future__ import annotations

import datetime
import os
import platform
import secrets
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace import records
from collectrace.config import Config
from collectrace.tracer.life.exit_hooks import ExitHooks
from collectrace.tracer.life.stack_dumps import StackDumps
from collectrace.tracer.life.watchdog import Watchdog, activities
from collectrace.tracer.record import groups
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.writer import Writer
from collectrace.version import __version__

PENDING: Final = "pending"
"""Folder of the files of ranks that have not got past ``init_process_group``."""

_ENVIRONMENT: Final = (
    "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "NCCL_", "TORCH_NCCL_", "TORCH_DISTRIBUTED_",
    "TORCH_CPP_LOG_LEVEL", "TORCHELASTIC_", "GLOO_", "TP_SOCKET_IFNAME", "OMP_NUM_THREADS",
)  # fmt: skip
"""Prefixes of the variables that change how collectives behave, or say who launched the job."""


class Session:
    """One enable() and what follows from it, until disable()."""

    runs: ClassVar[int] = 0
    """Begun in this process so far: an init that is traced again is another run."""

    def __init__(self, config: Config) -> None:
        # Where enable() was called: a script may go to another folder before it meets the others.
        self.config = replace(config, log_dir=config.log_dir.absolute())
        self.live = True
        self.recorder: Recorder | None = None
        self.rank: int | None = None
        self.world_size: int | None = None
        self.run: str | None = None
        self.over = False
        """The run's default group was destroyed; a new one would begin another run."""
        self.targets: list[str] = []
        self.exit_hooks = ExitHooks(self)
        self._finished = False
        self._beginning = threading.RLock()
        self._watchdog: Watchdog | None = None
        self._stack_dumps: StackDumps | None = None

    def count_failure(self, problem: Exception, doing: str) -> None:
        """A wrapper failed."""
        if self.recorder is not None:
            self.recorder.count_failure(problem, doing)

    # -- runs -----------------------------------------------------------------------------

    def begin(self, rank: int | None, world_size: int | None) -> Recorder:
        """A process group is about to be made: from now on there is a file."""
        with self._beginning:  # ranks that are threads begin together
            return self._begin(rank, world_size)

    def _begin(self, rank: int | None, world_size: int | None) -> Recorder:
        if self.recorder is not None:
            if not self.over:
                return self.recorder
            self.finish(records.Exit(reason="finished"))
        Session.runs += 1
        self.rank, self.world_size, self.run = rank, world_size, None
        self.over = self._finished = False
        name = f"{socket.gethostname()}-{os.getpid()}-{Session.runs}.jsonl"
        writer = Writer(self.config.log_dir / PENDING / name, self.config.max_bytes, self._preamble)
        self.recorder = Recorder(writer, self.config.max_failures)
        self._watchdog = Watchdog(self.recorder, self.config)
        self._watchdog.start()
        self.exit_hooks.watch_child()
        return self.recorder

    def is_other_rank(self) -> bool:
        """Whether the calling thread is, or becomes, another rank than the run's."""
        recorder = self.recorder
        if recorder is None or self.over:
            return False
        return recorder.book.is_other_rank(may_begin=True)

    def move_to_run(self, store: Any, rank: int, world_size: int) -> None:
        """The ranks have met: agree on the run's id and move to its folder."""
        recorder = self.recorder
        if recorder is None:
            return
        self.rank, self.world_size = rank, world_size
        recorder.global_rank = rank
        self.run = self._agree(store)
        path = self.config.log_dir / self.run / f"rank{rank:05d}.jsonl"
        with recorder.lock:
            recorder.writer.move(_unused(path))
        self._stack_dumps = StackDumps(recorder.writer.path)
        try:
            self._stack_dumps.open()
            if self._watchdog is not None:
                self._watchdog.arm(self._stack_dumps)
        except OSError as problem:
            recorder.count_failure(problem, "preparing for a crash")

    def finish(self, last: records.Exit) -> None:
        """Write the end of the run's file, once."""
        recorder = self.recorder
        if recorder is None or self._finished:
            return
        self._finished = True
        try:
            self._end(recorder, last)
        except Exception as problem:
            recorder.count_failure(problem, "ending the record")
        finally:
            recorder.active = False
            recorder.writer.close()
            recorder.book.forget_all()
            recorder.works.forget_all()
            self.recorder = None

    def _end(self, recorder: Recorder, last: records.Exit) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
        recorder.active = False
        last.in_ = activities(recorder)
        recorder.add_bill(last)
        if last.reason == "finished":
            recorder.works.mark_rest_unwaited()
        with recorder.lock:
            recorder.writer.check()
            self.write_progress()
            recorder.write(last)
            recorder.writer.close()
        if self._stack_dumps is not None:
            self._stack_dumps.close()

    def issued_since(self, t: int) -> bool:
        """Whether a call was issued after ``t``."""
        return self.recorder is not None and self.recorder.last_t > t

    def write_progress(self) -> None:
        """Write what has completed and where the streams stand: an end may be near."""
        if self.recorder is not None and self._watchdog is not None:
            self._watchdog.poll()
            self._watchdog.tell_done()
            with self.recorder.lock:
                self.recorder.checkpoint()

    def after_fork(self) -> None:
        """In a forked child: files, counters and threads are the parent's."""
        if self.recorder is not None:
            self.recorder.active = False
            self.recorder.writer.close()
        if self._stack_dumps is not None:
            self._stack_dumps.unregister()
        self.recorder = self._watchdog = self._stack_dumps = None
        Session.runs = 0
        self._finished = False
        self._beginning = threading.RLock()

    def join_late(self) -> None:
        """Begin in the middle of a run that is under way."""
        default = c10d._get_default_group()
        rank, world_size = dist.get_rank(), dist.get_world_size()
        recorder = self.begin(rank, world_size)
        for pg in list(c10d._world.pg_map):
            name = recorder.book.name_of(groups.c10d_name(pg))
            record = groups.ready_record(
                pg, name, ordinal=recorder.book.asked, start_seq=groups.backend_sequence(pg)
            )
            recorder.book.asked += 1
            recorder.write(record)
            recorder.book.adopt(pg, record)
        recorder.book.default = default
        self.move_to_run(c10d._world.pg_map[default][1], rank, world_size)

    def _agree(self, store: Any) -> str:
        stamp = datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%d-%H%M%S")
        candidate = f"{stamp}-{secrets.token_hex(3)}"
        # torchrun's store outlives both a re-init and a restart of all workers.
        key = f"collectrace/run/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{Session.runs}"
        try:
            agreed = store.compare_set(key, "", candidate)
        except Exception:
            return candidate
        text = agreed.decode() if isinstance(agreed, bytes) else str(agreed)
        return text or candidate

    # -- the head of a segment ------------------------------------------------------------

    def _preamble(self, segment: int) -> bytes:
        lines = [records.encode(self._header(segment))]
        recorder = self.recorder
        if recorder is not None:
            if segment or recorder.calls:
                lines += [records.encode(g.record) for g in list(recorder.book.states.values())]
            lines.append(recorder.checkpoint_line())
        return b"".join(lines)

    def _header(self, segment: int) -> records.Header:
        return records.Header(
            t=now(),
            wall=time.time_ns(),
            format=records.FORMAT,
            run=self.run,
            rank=self.rank,
            world_size=self.world_size,
            local_rank=groups.environment_int("LOCAL_RANK"),
            segment=segment,
            host=socket.gethostname(),
            pid=os.getpid(),
            cwd=_cwd(),
            versions={
                "collectrace": __version__,
                "python": platform.python_version(),
                "torch": str(torch.__version__),
            },
            argv=list(sys.argv),
            env={k: v for k, v in sorted(os.environ.items()) if k.startswith(_ENVIRONMENT)},
            heartbeat=self.config.heartbeat,
            stall_after=self.config.stall_after,
            targets=[] if segment else [t.removeprefix("torch.") for t in self.targets],
        )


def _cwd() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it was deleted


def _unused(path: Path) -> Path:
    # Two processes that call themselves the same rank of one run: both are evidence.
    for n in range(1, 100):
        if not path.exists():
            return path
        path = path.with_name(f"{path.stem.partition('+')[0]}+{n}.jsonl")
    return path
