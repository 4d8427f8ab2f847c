"""Rank 2 has run for longer and saves; what its `if` goes by was read from a clock before it.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; barrier; BUG; if save_now; minutes = ; clock
fix: one rank read the clock; broadcast
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def saves(loss: torch.Tensor, began: float, step: int) -> None:
    dist.all_reduce(loss)
    minutes = (time.monotonic() - began) / 60
    save_now = minutes > 5 and step == 4
    if save_now:
        dist.barrier()  # BUG


rank = init()
began = time.monotonic() - (600 if rank == 2 and not TWIN else 0)
for step in range(8):
    saves(torch.ones(2), began, step)
