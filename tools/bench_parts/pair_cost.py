"""What is added to a gloo all_reduce of one float between two processes, by whom."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

import collectrace
from tools.bench_parts.common import Claim, Part, fresh, middle, spread
from tools.bench_parts.step_cost import read_bill

_RECORDER: Final = "TORCH_FR_BUFFER_SIZE"
"""Entries of torch's Flight Recorder; for gloo it is on unless this is 0."""


def part_pair(*, quick: bool) -> Part:
    """(c) collectrace beside TORCH_DISTRIBUTED_DEBUG=DETAIL and torch's Flight Recorder."""
    part = Part("c", "added to a gloo all_reduce of one float, two processes")
    rounds, chunks = (3, 5) if quick else (11, 10)
    plain, recorded, pairs = [], [], []
    for _ in range(rounds):
        # Fresh processes in turns: the Flight Recorder cannot be switched in one that runs.
        pair = fresh(_in_turns, chunks, True, ranks=2, env={_RECORDER: "0"})[0]
        other = fresh(_in_turns, chunks, False, ranks=2, env={_RECORDER: "2000"})[0]
        assert pair["entries"] == 0
        assert other["entries"] > 0
        pairs.append(pair)
        plain.append(pair["plain"])
        recorded.append(other["plain"])
    traced = [p["traced_adds"] for p in pairs]
    detail = [p["detail_adds"] for p in pairs]
    flight = [with_it - without for with_it, without in zip(recorded, plain, strict=True)]
    share = middle(traced) / middle(detail)
    part.row("untraced, us", spread(plain, 1000, 0))
    part.row("collectrace adds, us", spread(traced, 1000, 1))
    part.row("DETAIL adds, us", spread(detail, 1000, 0))
    part.row("Flight Recorder adds, us", spread(flight, 1000, 1))
    part.row("collectrace / DETAIL", f"1 / {1 / share:.0f}" if share > 0 else "below noise")
    part.row("with DETAIL / untraced", f"{1 + middle(detail) / middle(plain):.2f}")
    part.row("with collectrace / untraced", f"{1 + middle(traced) / middle(plain):.3f}")
    part.row("with Flight Recorder / untraced", f"{1 + middle(flight) / middle(plain):.3f}")
    part.figures = {
        "plain_ns": middle(plain), "traced_ns": middle(traced), "detail_ns": middle(detail),
        "flight_recorder_ns": middle(flight), "share": share,
        "bytes": pairs[0]["bytes"], "path": pairs[0]["path"],
    }  # fmt: skip
    part.claims = [Claim("collectrace adds at most 1/25 of what DETAIL adds", share, 0.04)]
    return part


def part_bytes(step: Part, pair: Part) -> Part:
    """(d) How long records are, in the step and in the loop."""
    part = Part("d", "bytes per record")
    for name, source in (("in the DDP step", step), ("in the loop of all_reduces", pair)):
        size, path = source.figures["bytes"], source.figures["path"]
        part.figures[name] = size - path
        part.row(name, f"{size:.0f}, of which the path of the script {path:.0f}")
    most = max(part.figures.values())
    part.claims = [Claim("a record has less than 300 bytes, and the script's path", most, 299)]
    return part


def _in_turns(_: int, chunks: int, compared: bool) -> dict[str, Any]:
    """Medians over short chunks; what is compared takes turns within the same processes."""
    tensor = torch.zeros(1)
    _distributed_c10d.set_debug_level(_distributed_c10d.DebugLevel.DETAIL)
    detailed: Any = dist.new_group()
    _distributed_c10d.set_debug_level(_distributed_c10d.DebugLevel.OFF)
    wrapper = detailed._get_backend(torch.device("cpu"))
    assert isinstance(wrapper, _distributed_c10d._ProcessGroupWrapper)
    _chunk(tensor, None)
    _chunk(tensor, detailed)
    seen: dict[str, list[float]] = defaultdict(list)
    bill: dict[str, float] = {}
    for ordinal in range(chunks):
        plain = _chunk(tensor, None)
        seen["plain"].append(plain)
        if not compared:
            continue
        with collectrace.trace(f"logs{ordinal}"):
            _chunk(tensor, None, 10)
            traced = _chunk(tensor, None)
        bill = read_bill(Path(f"logs{ordinal}"), dist.get_rank())
        after = _chunk(tensor, None)
        # Between two of the same: what drifts goes into both.
        seen["traced"].append(traced - (plain + after) / 2)
        detail = _chunk(tensor, detailed)
        seen["detail"].append(detail - (after + _chunk(tensor, None)) / 2)
    entries = json.loads(_distributed_c10d._dump_fr_trace_json()).get("entries", [])  # type: ignore[attr-defined]
    return {
        "plain": middle(seen["plain"]), "entries": len(entries),
        "bytes": bill.get("line_bytes"), "path": bill.get("path_bytes"),
        "traced_adds": middle(seen["traced"] or [0]), "detail_adds": middle(seen["detail"] or [0]),
    }  # fmt: skip


def _chunk(tensor: torch.Tensor, group: Any, calls: int = 200) -> float:
    """Nanoseconds of the middle one of some calls; the middle, since others use the machine."""
    dist.barrier()
    took = []
    for _ in range(calls):
        began = time.perf_counter_ns()
        dist.all_reduce(tensor, group=group)
        took.append(time.perf_counter_ns() - began)
    return middle(took)
