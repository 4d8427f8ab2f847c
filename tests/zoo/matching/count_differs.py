"""The last batch of rank 1 is ragged, and its logits are summed over the ranks.

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
for step in range(3):
    rows = 3 if rank == 1 and step == 2 and not TWIN else 8
    dist.all_reduce(torch.ones(rows, 2))  # BUG
