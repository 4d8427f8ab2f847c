"""What is told of frameworks beyond roles: steps of the job, waits, and parts that were swapped."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer
from torch.optim import optimizer as torch_optimizer

import collectrace
from collectrace.align import align
from collectrace.records import Alive, Unit
from tests.support.real_ranks import Ranks


def call() -> None:
    dist.all_reduce(torch.ones(1))


def optimizer() -> Optimizer:
    return SGD([nn.Parameter(torch.ones(1))], lr=0.1)


# -- steps of the job -----------------------------------------------------------------------


class Outer(SGD):
    """Steps another optimizer in its own step, as ZeRO does."""

    inner: Optimizer

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.inner.step()
        call()


def two_optimizers() -> None:
    first, second = optimizer(), optimizer()
    outer = Outer([nn.Parameter(torch.ones(1))], lr=0.1)
    outer.inner = optimizer()
    for _ in range(3):
        call()
        for one in (first, second, outer):
            one.step()


def test_the_optimizer_that_steps_most_counts_and_one_inside_another_does_not(ranks: Ranks) -> None:
    ran = ranks.run(two_optimizers)
    for rank in range(2):
        log = ran.log(rank)
        assert [c.iteration for c in log.calls] == [None, 2, 2, 3, 3, 4]
        assert [unit.of for unit in log.of(Unit)] == ["optimizer.step"]
    assert align(ran.logs).status == "aligned"


def own_steps() -> None:
    collectrace.step()
    call()
    one = optimizer()
    one.step()
    call()
    collectrace.step()
    call()
    model = DistributedDataParallel(nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    collectrace.step()
    call()


def test_the_script_says_what_a_step_is_unless_ddp_does(ranks: Ranks) -> None:
    log = ranks.run(own_steps).log()
    assert [c.iteration for c in log.calls if c.role == "user"] == [1, 1, 2, 1]
    assert [unit.of for unit in log.of(Unit)] == ["collectrace.step", "ddp.forward"]


def uneven_steps() -> None:
    one = optimizer()
    for n in range(4):
        if dist.get_rank() == 0 or n % 2:
            one.step()
        call()


def test_a_rank_may_step_more_often(ranks: Ranks) -> None:
    alignment = align(ranks.run(uneven_steps).logs)
    assert alignment.status == "aligned"
    assert not alignment.findings


def hook_is_gone() -> int:
    collectrace.disable()
    collectrace.step()
    optimizer().step()
    return len(torch_optimizer._global_optimizer_post_hooks)


def test_nothing_is_counted_when_tracing_is_off(ranks: Ranks) -> None:
    assert ranks.run(hook_is_gone).result() == 0


# -- waits ----------------------------------------------------------------------------------


WAITS = re.compile(rb'"what":"wait"[^}]*"seq":2\b')


def late() -> None:
    everyone = dist.group.WORLD
    assert everyone is not None
    functional.all_reduce(torch.ones(2), "sum", everyone).add_(1)
    if dist.get_rank() == 1:
        logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
        while not any(WAITS.search(f.read_bytes()) for f in logs.rglob("rank00000.jsonl")):
            time.sleep(0.05)
    functional.all_reduce(torch.ones(3), "sum", everyone).add_(1)


def test_a_wait_for_a_tensor_is_a_wait_for_its_call(ranks: Ranks) -> None:
    ran = ranks.run(late, 2, env={"COLLECTRACE_HEARTBEAT": "0.1"})
    waits = [a for alive in ran.log().of(Alive) for a in alive.in_ or () if a.what == "wait"]
    # On a busy machine a heartbeat may see the first one, too.
    assert {a.op for a in waits} == {"all_reduce"}
    assert 2 in {a.seq for a in waits}
    assert all(a.site and "test_frameworks.py" in a.site for a in waits)


# -- parts ----------------------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor, order: list[int]) -> torch.Tensor:
        for n in order:
            x = self.layers[n](x)
        return x


def swapped(is_swapped: bool) -> None:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Layers()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    for step in range(3):
        turned = is_swapped and step == 2 and dist.get_rank() == 1
        with torch.no_grad():
            model(torch.ones(1, 4), [0, 2, 1] if turned else [0, 1, 2])


def test_layers_of_one_size_in_another_order_are_told_apart(ranks: Ranks) -> None:
    first = align(ranks.run(swapped, 2, True).logs).findings[0]
    assert first.kind == "role_mismatch"
    parts = [side.call.part for side in first.sides if side.call is not None]
    assert sorted(map(str, parts)) == ["layers.1", "layers.2"]
    assert align(ranks.run(swapped, 2, False).logs).status == "aligned"
