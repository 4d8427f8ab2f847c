"""Two ranks, both for the first time where they are; but rank 0 is inside ``if rank == 0``.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; broadcast; BUG; rank == 0
fix: rank == 0 | every rank
never: up to here the ranks agree; ambiguous; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if TWIN:
    dist.broadcast(torch.ones(2), src=0)
elif rank == 0:
    dist.broadcast(torch.ones(2), src=0)  # BUG
dist.all_reduce(torch.ones(2))
