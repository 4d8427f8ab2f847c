"""Rank 2 is no member and does not call new_group, which every rank must.

ranks: 3
expect: group_mismatch
suspects: 2
status: diverged hung
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank != 2 or TWIN:
    group = dist.new_group([0, 1])  # BUG
dist.all_reduce(torch.ones(1))
