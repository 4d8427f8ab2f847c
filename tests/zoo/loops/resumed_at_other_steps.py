"""Rank 1 resumes from an older state than the others, and has steps left when they are done.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; /for _ in range/
fix: bounds | equally often | same number of steps
never: drop_last; DataLoader; network
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

LAST = 12


def newest_state(rank: int) -> int:
    return 3 if rank == 1 and not TWIN else 6


class Trainer:
    def __init__(self, rank: int) -> None:
        torch.manual_seed(0)
        self.rank = rank
        self.model = DistributedDataParallel(nn.Linear(5, 3))
        self.begin = newest_state(rank)

    def step(self) -> None:
        loss = self.model(torch.ones(2, 5) * self.rank).pow(2).mean()
        loss.backward()  # BUG

    def train(self) -> None:
        for _ in range(self.begin, LAST):
            self.step()
        self.score()

    def score(self) -> None:
        scores = [torch.zeros(2) for _ in range(dist.get_world_size())]
        dist.all_gather(scores, torch.ones(2))  # BUG


rank = init()
Trainer(rank).train()
dist.destroy_process_group()
