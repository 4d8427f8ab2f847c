"""After the student one rank scores its teacher, by the same function; the other trains on.

The loop over the steps was over on both.

ranks: 2
expect: op_mismatch shape_mismatch
suspects: none
status: diverged hung
cause: rank 0; all_reduce; BUG; `if self.teacher is not None:`; next(iter(teachers
fix: self.teacher is not None; decide together; every rank
never: ended earlier; equally often; left the loop
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def mean(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value)
    return value / dist.get_world_size()


def score(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return mean(model(torch.ones(2, 4)).sum())


class Distiller:
    def __init__(self, teachers: Sequence[nn.Module]) -> None:
        self.student = DistributedDataParallel(nn.Linear(4, 4))
        self.teacher = next(iter(teachers), None)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.student(torch.ones(2, 4)).sum().backward()

    def report(self) -> None:
        print(score(self.student.module), flush=True)
        if self.teacher is not None:
            print(score(self.teacher), flush=True)  # BUG


rank = init()
distiller = Distiller([nn.Linear(4, 4)] * (rank == 0 or TWIN))
for epoch in range(4):
    distiller.train(steps=3)
    if epoch == 1:
        distiller.report()
