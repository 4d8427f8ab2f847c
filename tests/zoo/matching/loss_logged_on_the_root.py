"""Each loss is reduced to rank 0 for its log. Rank 1 skips a batch by the next loss, its own.

The reduce has nothing to do with it: the loss is another one by then.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; GUARD
fix: all ranks; GUARD
never: gave its result; rank 0 only
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(8):
    dist.broadcast(torch.ones(2), src=0)
    spike = (rank, step) == (1, 5) and not TWIN
    loss = torch.ones(1) * (100.0 if spike else 1.0)
    if loss.item() > 10.0:  # GUARD
        continue
    dist.all_reduce(torch.ones(6))  # BUG
    dist.reduce(loss, dst=0)
dist.barrier()
