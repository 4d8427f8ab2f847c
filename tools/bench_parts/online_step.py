"""What comparing notes costs a real training step: DDP on gloo, every rank a process.

The same processes train in turn, traced without it, traced with it, and, as a control, traced
without it once more. All of a round share the machine's mood; each comes first equally often.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from torch._C._distributed_c10d import TCPStore

import collectrace
from tools.bench_parts.common import fresh, middle, spread
from tools.bench_parts.step_cost import Steps, thread_ns

HEAD: Final = (
    " ranks  step, ms                 with / without          without / without       "
    "CPU of its thread, %"
)

_WARM: Final = 20
"""Steps before anything is measured."""


def measure(world_size: int, rounds: int, seconds: float) -> str:
    """One row of the table, whose head is :data:`HEAD`."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    found = fresh(_rounds, rounds, seconds, ranks=world_size, port=store.port)[0]
    steps = spread([one["off"] for one in found], 1e-3, 1)
    ratios = spread([one["on"] / one["off"] for one in found], 1, 3)
    control = spread([one["again"] / one["off"] for one in found], 1, 3)
    share = spread([100 * one["cpu"] for one in found], 1, 3)
    return f"{world_size:6}  {steps:24} {ratios:23} {control:23} {share}"


def _rounds(_: int, rounds: int, seconds: float) -> list[dict[str, float]]:
    steps = Steps()
    steps.run(_WARM)
    found = []
    for ordinal in range(rounds):
        order = deque(("off", "on", "again"))
        order.rotate(ordinal)
        took = {}
        for name in order:
            with collectrace.trace(f"{name}{ordinal}", online=name == "on"):
                began, spent = time.perf_counter(), _spent(name)
                took[name] = middle(steps.run_for(seconds))
                if name == "on":
                    took["cpu"] = (_spent(name) - spent) / 1e9 / (time.perf_counter() - began)
        found.append(took)
    return found


def _spent(name: str) -> int:
    """Processor time of the thread that compares notes, ns."""
    return thread_ns("collectrace-online") if name == "on" else 0
