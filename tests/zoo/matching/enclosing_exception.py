"""Rank 1 catches an exception of its own and reports it to all, from the ``except`` block.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; broadcast_object_list; BUG; except* | ZeroDivisionError
fix: every rank | all ranks
never: left the loop; loop ended; logs do not show; rank == 0
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(4):
    try:
        rate = 1.0 / (2.0 if (rank, step) != (1, 2) or TWIN else 0.0)
    except ZeroDivisionError as error:
        dist.broadcast_object_list([str(error)], src=0)  # BUG
    dist.all_reduce(torch.ones(1))
