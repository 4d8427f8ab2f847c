"""Rank 1 finds too little in its first attempt of round 5, and goes through the loop once more.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; once more, the 2nd in a row; /while len\\(found\\) < 3:/
fix: same length | all ranks decide
never: left out one; ranks 0,2 issued
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def draw() -> torch.Tensor:
    table = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(table, torch.full((2,), float(rank)))  # BUG
    return torch.cat(table)


def collect(step: int) -> list[float]:
    found: list[float] = []
    while len(found) < 3:
        values = draw().tolist()
        found += values[:1] if (rank, step, len(found)) == (1, 5, 0) and not TWIN else values
    return found


for step in range(9):
    mean = torch.tensor(collect(step)[:3]).mean()
    dist.all_reduce(mean)
    draw()
    dist.barrier()
