"""Rank 1 alone runs out of memory in forward, and starts over: it wraps its model anew.

ranks: 2
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; raised; OutOfMemory; ALLOCATES
fix: every rank | all ranks
never: ambiguous; rank 0 raised; find_unused_parameters
"""

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class OutOfMemory(RuntimeError):
    pass


class Encoder(nn.Module):
    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget
        self.layer = nn.Linear(4, 4)

    def forward(self, batch: Tensor) -> Tensor:
        if batch.numel() > self.budget:
            raise OutOfMemory(f"tried to allocate {batch.numel()}")  # ALLOCATES
        out: Tensor = self.layer(batch).sum()
        return out


def train(batch_size: int) -> None:
    model = DistributedDataParallel(Encoder(budget=40))  # BUG
    for step in range(6):
        is_long = step == 3 and (rank == 1 or TWIN)
        model(torch.ones(batch_size * (2 if is_long else 1), 4)).backward()


rank = init()
size = 8
while size:
    try:
        train(size)
        break
    except OutOfMemory:
        size //= 2
