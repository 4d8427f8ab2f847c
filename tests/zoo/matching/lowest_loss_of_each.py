"""Two ranks. One saves when its own loss is the lowest yet, and the other's is not.

Nobody may be blamed: each goes by a loss of its own, and either may have come there first.

expect: op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 0; barrier; BUG; lowest
fix: every rank | on none | decide
never: only rank 0 was; asks for the rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank, lowest = init(), 0.5
for step in range(6):
    total = torch.ones(3)
    dist.all_reduce(total)
    loss = 0.2 if step == 4 and (TWIN or rank == 0) else 1.0
    if loss < lowest:
        dist.barrier()  # BUG
        lowest = loss
    dist.broadcast(total, src=0)
