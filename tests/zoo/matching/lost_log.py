"""Rank 0 is wrong and the log of rank 3 is lost: two of four agree, which proves no majority.

ranks: 4
expect: op_mismatch
suspects: none
status: diverged
lost_log: 3
twin_status: unknown
cause: rank 0; broadcast; all_reduce; rank 3; BUG
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
dist.all_reduce(torch.ones(2))
if rank == 0 and not TWIN:
    dist.broadcast(torch.ones(2), src=0)  # BUG
else:
    dist.all_reduce(torch.ones(2))
