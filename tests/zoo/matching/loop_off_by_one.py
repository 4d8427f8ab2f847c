"""Rank 2 leaves the loop one barrier early.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; 9; loop; BUG
fix: length | number of steps
never: either; left out a round
"""

import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
steps = 9 if rank == 2 and not TWIN else 10
for _ in range(steps):
    dist.barrier()  # BUG
