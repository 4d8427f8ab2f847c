"""Rank 0 makes the same calls as the others from lines and functions of its own: legal, no error.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init


def main_process(step: int) -> None:
    dist.all_reduce(torch.ones(4))
    print("step", step)
    dist.barrier()


def worker(step: int) -> None:
    dist.all_reduce(torch.ones(4))
    dist.barrier()


rank = init()
for step in range(5):
    (main_process if rank == 0 else worker)(step)
