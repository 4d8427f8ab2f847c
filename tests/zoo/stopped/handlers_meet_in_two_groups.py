"""Both ranks handle one exception, and go through two groups in other orders: nobody is to blame.

ranks: 2
expect: deadlock
suspects: none
status: hung
cause: BUG; LOGGED; different orders
fix: same order
never: while that was handled; error flag; rank 1 raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def read(step: int) -> torch.Tensor:
    if step == 3:
        raise ValueError("record 3")
    return torch.ones(3)


def save() -> None:
    dist.barrier(savers)  # BUG


def log() -> None:
    dist.all_reduce(torch.ones(2))  # LOGGED


rank = init()
savers = dist.new_group(timeout=TIMEOUT, group_desc="savers")
try:
    for step in range(4):
        dist.all_reduce(read(step))
except ValueError:
    for call in (save, log) if rank == 1 and not TWIN else (log, save):
        call()
