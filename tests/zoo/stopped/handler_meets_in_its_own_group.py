"""Rank 1 cannot read a record; what handles that saves, and meets in a group of its own.

ranks: 2
expect: deadlock
suspects: 1
status: hung
cause: rank 1; ValueError; RAISED; while that was handled; BUG; HANDLER
fix: RAISED; error flag
never: different orders
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def read(step: int) -> torch.Tensor:
    if (rank, step) == (1, 4) and not TWIN:
        raise ValueError("record 4")  # RAISED
    return torch.ones(3)


def save() -> None:
    dist.barrier(savers)  # BUG


rank = init()
savers = dist.new_group(timeout=TIMEOUT, group_desc="savers")
try:
    for step in range(6):
        dist.all_reduce(read(step))
        if step % 2:
            save()
except ValueError:
    save()  # HANDLER
    raise
