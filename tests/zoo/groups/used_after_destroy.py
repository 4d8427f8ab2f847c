"""Rank 1 uses a group that it has destroyed, and dies of it; the others wait for it.

ranks: 3
expect: missing_call
suspects: 1
status: hung
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
group = dist.new_group([0, 1, 2])
if rank == 1 and not TWIN:
    dist.destroy_process_group(group)
dist.all_reduce(torch.ones(1), group=group)  # BUG
