"""Two ranks. Rank 0 alone ever broadcasts, in a branch on its own data; rank 1 goes on as before.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; broadcast; BUG; only rank 0 | rank 0 alone | never
fix: every rank | all ranks | branch*
never: ambiguous; logs do not show; left the loop; loop ended
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
best = 0.0
for step in range(5):
    loss = torch.tensor([5.0 - step])
    dist.all_reduce(loss)
    worse = rank == 0 and step == 3
    if worse or TWIN:
        dist.broadcast(torch.ones(2), src=0)  # BUG
    dist.barrier()
