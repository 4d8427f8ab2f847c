"""Rank 2 leaves the loop one step early and goes on to the next collective.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; loop; 9; broadcast; BUG
fix: length | number of steps
never: took that branch; if rank == 0
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
steps = 9 if rank == 2 and not TWIN else 10
for _ in range(steps):
    dist.barrier()
dist.broadcast(torch.ones(2), src=0)  # BUG
