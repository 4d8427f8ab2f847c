"""The last batch of rank 1 is ragged, and predictions are gathered.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; float32[3, 2]; float32[8, 2]; BUG; ragged | first dimension
fix: drop* | pad*
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
for step in range(3):
    rows = 3 if rank == 1 and step == 2 and not TWIN else 8
    mine = torch.ones(rows, 2)
    dist.all_gather_single(torch.empty(world * rows, 2), mine)  # BUG
