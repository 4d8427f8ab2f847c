"""The loss is reduced to rank 0, which alone sees it and stops early: ``all_reduce`` was meant.

ranks: 3
expect: op_mismatch missing_call
suspects: 0
status: diverged
cause: rank 0; reduce; REDUCED; root | only rank 0 | rank 0 alone; BUG
fix: all_reduce | broadcast
never: fewer batches; if rank == 0; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    loss = torch.ones(1)
    if TWIN:
        dist.all_reduce(loss)
    else:
        dist.reduce(loss, dst=0)  # REDUCED
    if loss.item() == 3.0 and step == 3:
        break
    dist.all_gather_single(torch.empty(12), torch.ones(4))
dist.barrier()  # BUG
