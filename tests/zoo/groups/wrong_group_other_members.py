"""Rank 1 reduces with rank 0 alone where all three were meant.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 1; group 1; default group; BUG
fix: same group
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
pair = dist.new_group([0, 1], timeout=TIMEOUT)
dist.all_reduce(torch.ones(1), group=pair if rank == 1 and not TWIN else None)  # BUG
