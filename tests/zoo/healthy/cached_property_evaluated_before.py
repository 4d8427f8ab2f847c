"""A cached property that reduces is read by rank 0's logger alone, when all ranks have read it.

expect: nothing
ranks: 3
status: aligned
"""

from functools import cached_property

import torch
import torch.distributed as dist

from tests.zoo.common import init


class Summary:
    def __init__(self, losses: list[float]) -> None:
        self.losses = losses

    @cached_property
    def mean_loss(self) -> float:
        total = torch.tensor([sum(self.losses), float(len(self.losses))])
        dist.all_reduce(total)
        return float(total[0] / total[1])


class Scheduler:
    """Lowers the rate when the mean loss of all ranks has stopped to fall."""

    def __init__(self) -> None:
        self.rate, self.best = 0.1, float("inf")

    def step(self, summary: Summary) -> None:
        if summary.mean_loss >= self.best:
            self.rate *= 0.5
        self.best = min(self.best, summary.mean_loss)


def train_epoch(weight: torch.Tensor, rate: float) -> Summary:
    losses = []
    for _ in range(3):
        gradient = weight * rate
        dist.all_reduce(gradient)
        weight -= gradient / dist.get_world_size()
        losses.append(float(weight.square().mean()))
    return Summary(losses)


rank = init()
weight, scheduler = torch.ones(4), Scheduler()
for epoch in range(3):
    summary = train_epoch(weight, scheduler.rate)
    scheduler.step(summary)
    if rank == 0:
        print(epoch, summary.mean_loss, flush=True)
dist.barrier()
dist.destroy_process_group()
