"""torch's Flight Recorder, inside the backend, saw just what the tracer says was issued."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore[attr-defined]

from collectrace.records import Call
from collectrace.signature import numel
from tests.support import trainings
from tests.support.real_ranks import Ranks

RECORDING: Final = {"TORCH_FR_BUFFER_SIZE": "20000"}
DTYPES: Final = {"Float": "float32", "Long": "int64", "Int": "int32", "Byte": "uint8"}

Seen = list[tuple[Any, ...]]


def witnessed() -> Seen:
    """What the Flight Recorder holds, oldest first."""
    entries: list[dict[str, Any]] = json.loads(_dump_fr_trace_json())["entries"]
    return [
        (
            e["process_group"][0],
            e["collective_seq_id"],
            e["profiling_name"],
            [DTYPES[name] for name in e["input_dtypes"]][:1],
            sum(numel(e["input_sizes"])),
        )
        for e in entries
    ]


def told(call: Call) -> tuple[Any, ...]:
    """The same of one record."""
    count = 1 if call.op == "barrier" else sum(numel(call.shape))  # gloo lends it a scalar
    dtype = [] if call.dtype is None else [call.dtype]
    return call.group, call.seq, f"gloo:{call.op}", dtype, count


def train(name: str) -> Seen:
    """Train in one of the ways of ``trainings``."""
    getattr(trainings, name)(dist.get_rank())
    return witnessed()


def two_groups() -> Seen:
    turned = dist.new_group([1, 0], sort_ranks=False)
    for group in (None, turned):
        dist.all_reduce(torch.ones(3), group=group)
        dist.broadcast(torch.ones(2, dtype=torch.int64), 1, group=group)
        dist.barrier(group=group)
        dist.all_gather_object([None, None], "x", group=group)
    return witnessed()


@pytest.mark.parametrize(
    ("body", "way"),
    [
        (train, ["ddp_many_buckets"]),  # which are rebuilt after the first step
        (train, ["ddp_buffers"]),
        (train, ["ddp_unused_parameters"]),
        (train, ["ddp_static_graph"]),
        (train, ["ddp_join_unused_parameters"]),
        (train, ["zero_with_join"]),
        (train, ["ddp_powersgd_hook"]),  # whose second phase is issued from a thread of C++
        (two_groups, []),
    ],
)
def test_nothing_is_missing_and_nothing_made_up(ranks: Ranks, body: Any, way: list[str]) -> None:
    ran = ranks.run(body, 2, *way, env=RECORDING)
    for rank in (0, 1):
        seen = [tuple(entry) for entry in ran.result(rank)]
        assert len(seen) > 9
        assert sorted(map(told, ran.calls(rank)), key=repr) == sorted(seen, key=repr)
