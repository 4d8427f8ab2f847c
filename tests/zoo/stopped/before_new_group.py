"""Rank 1 comes late to new_group, and the others hang in it.

ranks: 3
expect: missing_call group_mismatch
suspects: 1
status: hung diverged
limit: 12
cause: rank 1; new_group; never came | not come | late; BUG; BUSY
fix: timeout | same point
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 1 and not TWIN:
    time.sleep(60)  # BUSY
group = dist.new_group([0, 1, 2], timeout=timedelta(seconds=8))  # BUG
dist.all_reduce(torch.ones(1), group=group)
