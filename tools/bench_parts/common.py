"""What the parts of the bench share: claims, tables, and fresh processes to measure in."""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

_LIMIT: Final = 900
"""Seconds a measurement may take before it counts as hung."""

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["torch", "torch.distributed", "torch.testing._internal.distributed.fake_pg"]
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that must not be above its limit."""

    text: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold"


@dataclass(slots=True)
class Part:
    """One part of the bench: its rows as they are printed, its figures, what it claims."""

    letter: str
    title: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def row(self, name: str, text: str) -> None:
        self.rows.append((name, text))


def middle(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(values)


def spread(values: Sequence[float], scale: float = 1, digits: int = 2) -> str:
    """``median (min to max)``."""
    low, mid, high = (f"{v / scale:.{digits}f}" for v in (min(values), middle(values), max(values)))
    return f"{mid} ({low} to {high})"


def resident() -> int:
    """Bytes of memory this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_per_call(act: Callable[[], Any], calls: int, chunks: int = 20) -> float:
    """Nanoseconds of this thread's processor time per call, in the best of some short chunks.

    Processor time leaves out what other processes take away meanwhile, and the best chunk the
    caches they spoil.
    """
    each = max(1, calls // chunks)
    best = float("inf")
    for _ in range(chunks):
        began = time.thread_time_ns()
        for _ in range(each):
            act()
        best = min(best, (time.thread_time_ns() - began) / each)
    return best


def fresh(
    body: Callable[..., Any],
    *args: Any,
    ranks: int = 1,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    limit: float = _LIMIT,
) -> list[Any]:
    """What ``body(rank, *args)`` returns in fresh processes, one per rank.

    One rank gets torch's ``fake`` backend, several get gloo. They run in an empty folder, and meet
    at a file in it, or at the ``TCPStore`` of this machine that has the ``port``; after ``limit``
    seconds they count as hung.
    """
    with tempfile.TemporaryDirectory(prefix="bench-record-") as folder:
        members = []
        for rank in range(ranks):
            ours, theirs = _context.Pipe(duplex=False)
            member = _context.Process(
                target=_member,
                args=(theirs, folder, port, rank, ranks, dict(env or {}), body, args),
            )
            member.start()
            theirs.close()
            members.append((member, ours))
        try:
            return [_receive(answer, limit) for _, answer in members]
        finally:
            for member, _ in members:
                member.join(5)
                member.kill()


def _receive(answer: Connection, limit: float) -> Any:
    try:
        if answer.poll(limit):
            return answer.recv()
    except EOFError:
        raise SystemExit("bench: a measuring process died; see above") from None
    raise SystemExit("bench: a measuring process hangs")


def _member(
    answer: Connection, folder: str, port: int | None, rank: int, ranks: int, env: dict[str, str],
    body: Callable[..., Any], args: tuple[Any, ...],
) -> None:  # fmt: skip
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    try:
        os.chdir(folder)
        os.environ.update(env)
        c10d.set_debug_level_from_env()
        torch.set_num_threads(1)
        if ranks == 1:
            store: Any = FakeStore()
            dist.init_process_group("fake", store=store, rank=0, world_size=2)
        else:
            if port is not None:
                store = c10d.TCPStore("127.0.0.1", port, is_master=False)
            else:
                store = c10d.FileStore(f"{folder}/store", ranks)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
        result = body(rank, *args)
        if ranks > 1:
            dist.barrier()
        answer.send(result)
        dist.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        raise
