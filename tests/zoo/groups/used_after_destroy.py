"""Rank 1 destroys its process group too early and dies of the next call; the others wait for it.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; destroy* | gone; BUG
fix: destroy_process_group
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
dist.all_reduce(torch.ones(1))
if rank == 1 and not TWIN:
    dist.destroy_process_group()
dist.all_reduce(torch.ones(1))  # BUG
