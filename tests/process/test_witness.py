"""torch's Flight Recorder, inside the backend, saw just what the tracer says was issued."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from collectrace.records import Call
from collectrace.signature import numel
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


def ddp(bucket_cap_mb: float = 1e-4, **options: Any) -> DistributedDataParallel:
    """Its buckets are small: there are several, and they are rebuilt after the first step."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    return DistributedDataParallel(layers, bucket_cap_mb=bucket_cap_mb, **options)


def steps(model: DistributedDataParallel, count: int) -> None:
    for _ in range(count):
        model(torch.ones(3, 4)).sum().backward()


def plain() -> Seen:
    steps(ddp(), 4)
    return witnessed()


def unused_parameters() -> Seen:
    steps(ddp(find_unused_parameters=True), 4)
    return witnessed()


def static_graph() -> Seen:
    steps(ddp(static_graph=True), 4)
    return witnessed()


def uneven_join() -> Seen:
    model = ddp(find_unused_parameters=True)
    with model.join():
        steps(model, 4 + dist.get_rank())
    return witnessed()


def join_of_two() -> Seen:
    # Here: its package warns when it is imported, and a warning is an error in pytest.
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = ddp()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        for _ in range(3 + dist.get_rank()):
            steps(model, 1)
            optimizer.step()
    return witnessed()


def power_sgd() -> Seen:
    """Its second phase is issued from a thread of C++."""
    # One bucket: two block both of gloo's worker threads in their callbacks, traced or not.
    model = ddp(bucket_cap_mb=25)
    state = PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook)
    steps(model, 5)
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
    "body",
    [plain, unused_parameters, static_graph, uneven_join, join_of_two, power_sgd, two_groups],
)
def test_nothing_is_missing_and_nothing_made_up(ranks: Ranks, body: Any) -> None:
    ran = ranks.run(body, 2, env=RECORDING)
    for rank in (0, 1):
        seen = [tuple(entry) for entry in ran.result(rank)]
        assert len(seen) > 9
        assert sorted(map(told, ran.calls(rank)), key=repr) == sorted(seen, key=repr)
