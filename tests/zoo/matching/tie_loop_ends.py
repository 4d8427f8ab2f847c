"""Two ranks. Rank 0 alone ever gets behind the loop, for its loop is shorter: nobody can be blamed.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; loop; 5; BUG
fix: length | number of
never: only rank 0; rank 0 alone; if rank == 0; took that branch
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for _ in range(5 if TWIN else 5 + rank):
    dist.all_reduce(torch.ones(4))  # BUG
dist.barrier()  # BUG
