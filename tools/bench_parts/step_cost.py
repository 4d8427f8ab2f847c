"""What tracing costs a real training step: DDP, two gloo ranks, five buckets."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import orjson
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace import records
from tools.bench_parts.common import Claim, Part, fresh, middle, resident, spread

BUCKETS: Final = 5
_WIDTH: Final = 512
_BATCH: Final = 32


class Steps:
    """Training, and how long its steps take."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = nn.Sequential(*[nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(BUCKETS)])
        # Two layers would not fit into one bucket.
        self._model = DistributedDataParallel(layers, bucket_cap_mb=1)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self._batch = torch.randn(_BATCH, _WIDTH)

    def run(self, count: int) -> list[float]:
        """Seconds of each of some steps, which both ranks begin together."""
        dist.barrier()
        return [self._step() for _ in range(count)]

    def run_for(self, seconds: float) -> list[float]:
        """As many steps as fit, rank 0 deciding."""
        took = self.run(10)
        count = torch.tensor([seconds / middle(took)])
        dist.broadcast(count, 0)
        return took + self.run(max(1, int(count)))

    def _step(self) -> float:
        began = time.perf_counter()
        self._optimizer.zero_grad()
        self._model(self._batch).sum().backward()
        self._optimizer.step()
        return time.perf_counter() - began


def part_step(empty_ns: float, *, quick: bool) -> Part:
    """(b) The tracer's own bill, and step times beside a control; (d)'s bytes on the way."""
    part = Part("b", "a DDP step, 2 gloo ranks, 5 buckets")
    rounds = fresh(_billed, 4 if quick else 16, 25 if quick else 50, ranks=2)[0]
    steps = middle(r["off"] for r in rounds)
    share = [100 * r["ns"] / 1e9 / r["traced_seconds"] for r in rounds]
    calls = middle(r["calls"] / r["steps"] for r in rounds)
    kernel = 100 * calls * empty_ns / 1e9 / steps
    part.row("untraced step, ms", spread([r["off"] for r in rounds], 1e-3, 1))
    part.row("records per step", f"{calls:.1f}")
    part.row("per record, us", spread([r["ns"] / r["calls"] for r in rounds], 1000, 1))
    part.row("the tracer's bill, % of the step", spread(share))
    part.row("what an interception in Python would add, %", f"{kernel:.2f}")
    part.row("step: traced / untraced", spread([r["on"] / r["off"] for r in rounds], 1, 3))
    part.row("control: untraced / untraced", spread([r["again"] / r["off"] for r in rounds], 1, 3))
    part.figures = {
        "bill_percent": middle(share), "interception_percent": kernel, "step_seconds": steps,
        "ratio": middle(r["on"] / r["off"] for r in rounds),
        "control": middle(r["again"] / r["off"] for r in rounds),
        "bytes": middle(r["line_bytes"] for r in rounds),
        "path": middle(r["path_bytes"] for r in rounds),
    }  # fmt: skip
    part.claims = [
        Claim("the tracer's bill is at most 1.5 % of the step", middle(share), 1.5),
    ]
    return part


def _billed(_: int, rounds: int, count: int) -> list[dict[str, float]]:
    steps = Steps()
    steps.run(20)
    found = []
    for ordinal in range(rounds):
        took: dict[str, list[float]] = {}
        last: dict[str, float] = {}
        # Each of the three comes first, second and last equally often.
        order = deque(("off", "on", "again"))
        order.rotate(ordinal)
        for name in order:
            if name != "on":
                took[name] = steps.run(count)
                continue
            with collectrace.trace(f"logs{ordinal}"):
                took[name] = steps.run(count)
            last = read_bill(Path(f"logs{ordinal}"), dist.get_rank())
        assert last["buckets"] == BUCKETS * count, last
        found.append(
            {name: middle(seconds) for name, seconds in took.items()}
            | last | {"traced_seconds": sum(took["on"]), "steps": float(count)}
        )  # fmt: skip
    return found


def read_bill(logs: Path, rank: int) -> dict[str, float]:
    """What a rank's file says at its end, and how long its records are."""
    [path] = logs.glob(f"*/rank{rank:05d}.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    calls = [line for line in lines if line.startswith(b'{"kind":"call"')]
    last = records.decode(lines[-1])
    assert isinstance(last, records.Exit)
    assert last.calls == len(calls)
    sites = [orjson.loads(line)["site"] for line in calls if b'"site"' in line]
    return {
        "ns": last.ns, "calls": last.calls, "line_bytes": sum(map(len, calls)) / len(calls),
        "path_bytes": sum(map(len, sites)) / len(calls),
        "buckets": sum(b".backward.bucket" in line for line in calls),
    }  # fmt: skip


# -- the watchdog -----------------------------------------------------------------------------


def part_watchdog(*, quick: bool) -> Part:
    """(g) The observing thread: its time beside the step's, and memory under works in flight."""
    part = Part("g", "the watchdog, in the same step")
    # Quick rounds are short: the heart beats faster there, so that some beats are in them.
    heartbeat, seconds, rounds = (1.0, 2.5, 2) if quick else (5.0, 6.0, 4)
    seen = fresh(_watched, heartbeat, seconds, rounds, ranks=2)[0]
    ratios = [r["on"] / r["off"] for r in seen]
    share = middle(100 * r["cpu"] for r in seen)
    part.row("heartbeat, s", f"{heartbeat:g}")
    part.row("step: watched / not watched", spread(ratios, 1, 3))
    part.row("control: not / not", spread([r["again"] / r["off"] for r in seen], 1, 3))
    part.row("CPU time of the thread, % of the step", f"{share:.3f}")
    first, last = (2_000, 10_000) if quick else (10_000, 100_000)
    begin, end = fresh(_in_flight, first, last, ranks=2)[0]
    grown = (end - begin) / 2**20
    part.row(f"memory, {_FLYING} works in flight, after {first:,}, MiB", f"{begin / 2**20:.1f}")
    part.row(f"after {last:,}, grown by, MiB", f"{grown:+.2f}")
    part.figures = {
        "ratio": middle(ratios), "control": middle(r["again"] / r["off"] for r in seen),
        "cpu_percent": share, "begin": begin, "end": end,
    }  # fmt: skip
    part.claims = [
        Claim("the watchdog's thread takes at most 0.5 % of the step", share, 0.5),
        Claim("memory grows by at most 2 MiB under works in flight", grown, 2),
    ]
    return part


_FLYING: Final = 256
_NEVER: Final = 1e6
"""Seconds: a watchdog that looks once in two days is none."""


def _watched(_: int, heartbeat: float, seconds: float, rounds: int) -> list[dict[str, float]]:
    steps = Steps()
    steps.run(20)
    found = []
    for ordinal in range(rounds):
        seen: dict[str, float] = {}
        order = deque(("off", "on", "again"))
        order.rotate(ordinal)
        for name in order:
            beat = heartbeat if name == "on" else _NEVER
            with collectrace.trace(f"{name}{ordinal}", heartbeat=beat, stall_after=12 * beat):
                began, spent = time.perf_counter(), thread_ns("collectrace")
                seen[name] = middle(steps.run_for(seconds))
                if name == "on":
                    seen["cpu"] = (
                        (thread_ns("collectrace") - spent) / 1e9 / (time.perf_counter() - began)
                    )
        found.append(seen)
    return found


def thread_ns(name: str) -> int:
    """Processor time that the thread of a name has had, ns."""
    [thread] = [t for t in threading.enumerate() if t.name == name]
    path = Path(f"/proc/{os.getpid()}/task/{thread.native_id}/schedstat")
    return int(path.read_text().split()[0])


def _in_flight(_: int, first: int, last: int) -> tuple[int, int]:
    tensors = [torch.zeros(256) for _ in range(_FLYING)]
    works: deque[Any] = deque()
    begin = 0
    with collectrace.trace("logs"):
        for n in range(last):
            if len(works) == _FLYING:
                works.popleft().wait()
            works.append(dist.all_reduce(tensors[n % _FLYING], async_op=True))
            if n == first:
                begin = resident()
        end = resident()
        for work in works:
            work.wait()
    return begin, end
