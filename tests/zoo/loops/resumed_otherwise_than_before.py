"""Each rank has once begun anew in the handler; now rank 1 does, and rank 0 resumes.

That a rank is in the handler is nothing new, and does not tell which of the two is wrong.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; rank 0; BUG
fix: every rank | all ranks | equally often
never: alone raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(first: int, last: int) -> None:
    for step in range(first, last):
        dist.all_reduce(torch.ones(4))
        if step % 5 == 4:
            dist.broadcast(torch.ones(1), src=0)  # BUG


def load(rank: int, job: int) -> int:
    if job == 0 or (rank == 1 and job == 2 and not TWIN):
        raise ValueError("no checkpoint")
    return 3


def run(rank: int, job: int) -> None:
    try:
        train(load(rank, job), 12)
    except ValueError:
        train(0, 12)  # BUG


rank = init()
for job in range(3):
    run(rank, job)
