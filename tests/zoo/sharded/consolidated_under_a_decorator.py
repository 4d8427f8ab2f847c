"""A hook consolidates the sharded optimizer inside a function that only rank 0 enters.

ranks: 2
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; consolidate* | ZeroRedundancyOptimizer; ONLY | only_on | condition on the rank
fix: every rank | all ranks | both ranks | each rank | outside | out of the | rank 1 too |
    rank 1 as well
never: /rank 1 is (wrong|to blame|guilty)/; drop_last; find_unused_parameters; uneven*
"""

import functools
import io
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

SAVING_RANKS = (0, 1) if TWIN else (0,)

P = ParamSpec("P")
T = TypeVar("T")


def only_on(ranks: tuple[int, ...]) -> Callable[[Callable[P, T]], Callable[P, T | None]]:
    def decorate(func: Callable[P, T]) -> Callable[P, T | None]:
        @functools.wraps(func)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T | None:
            if dist.get_rank() in ranks:  # ONLY
                return func(*args, **kwargs)
            return None

        return wrapper

    return decorate


class CheckpointHook:
    def __init__(self, interval: int) -> None:
        self.interval, self.saved = interval, dict[int, int]()

    def after_train_epoch(self, runner: "Runner") -> None:
        if (runner.epoch + 1) % self.interval == 0:
            self.save_checkpoint(runner)

    @only_on(SAVING_RANKS)
    def save_checkpoint(self, runner: "Runner") -> None:
        runner.optim.consolidate_state_dict(to=0)  # BUG
        if dist.get_rank() == 0:
            file = io.BytesIO()
            torch.save(runner.optim.state_dict(), file)
            self.saved[runner.epoch] = len(file.getvalue())


class Runner:
    def __init__(self, hooks: list[CheckpointHook]) -> None:
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
        self.model = DistributedDataParallel(model)
        self.optim = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.Adam, lr=1e-3)
        self.hooks, self.epoch = hooks, 0

    def train(self, epochs: int, batches: list[torch.Tensor]) -> None:
        for self.epoch in range(epochs):
            for x in batches:
                self.optim.zero_grad()
                self.model(x).square().mean().backward()
                self.optim.step()
            for hook in self.hooks:
                hook.after_train_epoch(self)


def main(rank: int) -> None:
    gen = torch.Generator().manual_seed(rank)
    batches = [torch.randn(4, 8, generator=gen) for _ in range(3)]
    Runner([CheckpointHook(interval=2)]).train(epochs=4, batches=batches)


main(init())
dist.destroy_process_group()
