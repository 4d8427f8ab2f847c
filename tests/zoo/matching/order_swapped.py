"""Rank 2 broadcasts before it reduces; the others do it the other way round.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; broadcast; all_reduce; BUG; rank == 2 | branch | order
fix: same order
never: up to here the ranks agree; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
loss, seed = torch.ones(1), torch.ones(1)
if rank == 2 and not TWIN:
    dist.broadcast(seed, src=0)  # BUG
    dist.all_reduce(loss)
else:
    dist.all_reduce(loss)
    dist.broadcast(seed, src=0)
