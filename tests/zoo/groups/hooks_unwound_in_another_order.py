"""Closing hooks run last in, first out; rank 1 made its checkpointer first, and closes it last.

ranks: 3
expect: deadlock
suspects: 1
status: hung
cause: rank 1; BUG | CLOSE; order* | circle* | wait* | opposite
fix: order | same | every rank | all ranks
never: drop_last; join(); find_unused_parameters
"""

from contextlib import ExitStack
from functools import cached_property
from typing import TypeVar

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SHARD_MISSING_ON = None if TWIN else 1  # whose node came back from repair with an empty disk


class Metrics:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self.total = group, torch.zeros(2)

    def add(self, loss: float) -> None:
        self.total += torch.tensor([loss, 1.0])

    def close(self) -> None:
        dist.all_reduce(self.total, group=self.group)  # BUG


class Checkpointer:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self.versions = group, {0: torch.zeros(5)}

    def fetch(self, step: int) -> torch.Tensor:
        return self.versions[step].clone()

    def save(self, step: int, weight: torch.Tensor) -> None:
        self.versions[step] = weight.clone()

    def close(self) -> None:
        dist.barrier(group=self.group)  # CLOSE


Part = TypeVar("Part", Metrics, Checkpointer)


class Run:
    """What a run needs; each part is made when it is first asked for, and closed with the run."""

    def __init__(self, closing: ExitStack, groups: dict[str, dist.ProcessGroup]) -> None:
        self.closing, self.groups = closing, groups

    def part(self, made: Part) -> Part:
        self.closing.callback(made.close)
        return made

    @cached_property
    def metrics(self) -> Metrics:
        return self.part(Metrics(self.groups["metrics"]))

    @cached_property
    def checkpointer(self) -> Checkpointer:
        return self.part(Checkpointer(self.groups["checkpoint"]))


rank = init()
groups = {name: dist.new_group() for name in ("metrics", "checkpoint")}
torch.manual_seed(rank)
with ExitStack() as closing:
    run = Run(closing, groups)
    weight = torch.zeros(5)
    if rank == SHARD_MISSING_ON:
        weight = run.checkpointer.fetch(0)
    for step in range(8):
        grad = torch.randn(5) + weight
        dist.all_reduce(grad)
        weight -= 0.1 * grad / 3
        run.metrics.add(float(grad.norm()))
        if step % 4 == 3:
            run.checkpointer.save(step, weight)

dist.destroy_process_group()
