"""join() over several epochs, models and joinables: nothing is wrong, and batches are counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

from collectrace.align.alignment import align
from collectrace.records import Join as JoinRecord
from tests.support.real_ranks import Ran, Ranks


def net(*, norm: bool = False) -> DistributedDataParallel:
    middle: list[nn.Module] = [nn.BatchNorm1d(4)] if norm else []
    return DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), *middle))


def step(model: nn.Module) -> None:
    model(torch.ones(2, 4)).sum().backward()


def plain(*epochs: list[int]) -> None:
    """``epochs``: for each the batches of every rank."""
    model = net(norm=True)
    for batches in epochs:
        with model.join():
            for _ in range(batches[dist.get_rank()]):
                step(model)


def two_forwards(*epochs: list[int]) -> None:
    model = net()
    for batches in epochs:
        with model.join():
            for _ in range(batches[dist.get_rank()]):
                model(torch.ones(2, 4)).sum().backward()
                model(torch.zeros(2, 4)).sum().backward()


def two_models(*epochs: list[int]) -> None:
    one, other = net(norm=True), net()
    for batches in epochs:
        with Join([one, other]):
            for _ in range(batches[dist.get_rank()]):
                step(one)
                step(other)


class Tally(Joinable):
    """A joinable of the user's own: it sums a number over the ranks that still train."""

    def __init__(self) -> None:
        super().__init__()

    class Hook(JoinHook):
        def main_hook(self) -> None:
            dist.all_reduce(torch.zeros(3))

    def __call__(self) -> None:
        Join.notify_join_context(self)
        dist.all_reduce(torch.ones(3))

    def join_hook(self, **_: Any) -> JoinHook:
        return self.Hook()

    @property
    def join_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


def own_first(*epochs: list[int]) -> None:
    tally, model = Tally(), net()
    for batches in epochs:
        with Join([tally, model]):
            for _ in range(batches[dist.get_rank()]):
                tally()
                step(model)


def own_alone(*epochs: list[int]) -> None:
    tally = Tally()
    for batches in epochs:
        with Join([tally]):
            for _ in range(batches[dist.get_rank()]):
                tally()


def uneven(ran: Ran) -> str:
    found = align(ran.logs)
    findings = [f for f in found.findings if f.kind != "straggler"]  # a busy machine's
    told = [f for f in findings if f.kind != "uneven_inputs"]
    assert found.status == "aligned", [f.headline for f in told]
    assert told == []
    return next((f.headline for f in findings), "")


@pytest.mark.parametrize(
    "function",
    [
        plain, two_models,
        *(pytest.param(f, marks=pytest.mark.slow) for f in (two_forwards, own_first, own_alone)),
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
@pytest.mark.parametrize(
    ("epochs", "told"),
    [
        pytest.param(
            [[0, 1, 2]],
            "rank 0 had 0 batches, rank 1 had 1 batch and rank 2 had 2 batches",
            marks=pytest.mark.slow,
        ),
        (
            [[4, 0, 1], [1, 1, 1], [1, 3, 2]],
            "rank 0 had 1 batch, rank 2 had 2 batches and rank 1 had 3 batches",
        ),
    ],
)
def test_a_healthy_run(function: Any, epochs: Any, told: str, ranks: Ranks) -> None:
    ran = ranks.run(function, 3, *epochs)
    assert uneven(ran) == (f"uneven inputs: {told}" if told else "")
    for epoch, batches in enumerate(epochs):
        for rank, count in enumerate(batches):
            joined = [j for j in ran.log(rank).of(JoinRecord) if j.phase == "joined"][epoch]
            lines = 2 if function is two_forwards else 1
            assert joined.rounds == [count] * (lines if count else 0)
    # A module's forwards and those that a joined rank shadows for it come to the same everywhere.
    left = {
        tuple(j.iteration for j in ran.log(rank).of(JoinRecord) if j.phase == "left")
        for rank in range(3)
    }
    assert len(left) == 1


def even_at_last() -> None:
    plain([1, 2, 3], [2, 2, 2])


def test_an_even_epoch_after_an_uneven_one(ranks: Ranks) -> None:
    assert uneven(ranks.run(even_at_last, 3)) == ""


def hangs(*batches: int) -> None:
    """The script's own barrier inside join()."""
    model = net()
    with model.join():
        for _ in range(4):
            step(model)
    with model.join():
        for _ in range(batches[dist.get_rank()]):
            model(torch.ones(2, 4)).sum().backward()
            model(torch.zeros(2, 4)).sum().backward()
            dist.barrier()


def test_a_rank_that_is_still_inside(ranks: Ranks) -> None:
    ran = ranks.run(hangs, 2, 2, 3, timeout=15, exits=(1, 1))
    root = align(ran.logs).findings[0]
    assert root.suspects == (1,)
    assert "rank 0 had 2 batches and rank 1 got to its 3rd" in root.cause
