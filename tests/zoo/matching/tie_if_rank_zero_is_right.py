"""Two ranks. Rank 0 sends inside ``if rank == 0``, as it should; rank 1 reduces in another branch.

Nobody may be blamed: that a call is inside ``if rank == 0`` proves nothing where the other rank is
in a branch of its own.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; broadcast; rank 1; all_reduce; BUG
fix: every rank | all ranks
never: up to here the ranks agree; only rank 0; rank 0 alone; rank 0 only
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
skipped = 3 * rank
if skipped > 2 and not TWIN:
    dist.all_reduce(torch.tensor([float(skipped)]))  # BUG
weights = torch.ones(2)
if rank == 0:
    dist.broadcast(weights, src=0)
else:
    dist.broadcast(weights, src=0)
