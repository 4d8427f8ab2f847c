"""Rank 0 makes a group for itself, and waits for the others to make it too; they reduce.

ranks: 3
expect: group_mismatch
suspects: 0
status: diverged
cause: rank 0; new_group; [0, 1, 2]; called none | only rank 0 | rank 0 alone; BUG
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
if rank == 0 or TWIN:
    dist.new_group([0, 1, 2], timeout=TIMEOUT)  # BUG
dist.all_reduce(torch.ones(1))
