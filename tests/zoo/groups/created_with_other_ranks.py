"""Rank 1 leaves itself out of a group that the others think it is in.

ranks: 3
expect: group_mismatch
suspects: 1
status: diverged
cause: rank 1; new_group; [0, 2]; [0, 1, 2]; BUG
fix: same ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
group = dist.new_group([0, 2] if rank == 1 and not TWIN else [0, 1, 2], timeout=TIMEOUT)  # BUG
if rank != 1 or TWIN:
    dist.all_reduce(torch.ones(1), group=group)
