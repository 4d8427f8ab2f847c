"""Two ranks, nine barriers against ten: nobody can say which number was meant.

expect: missing_call
suspects: none
status: hung
cause: rank 0; rank 1; 9; loop; BUG
fix: length | number of steps
"""

import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
steps = 9 if rank == 1 and not TWIN else 10
for _ in range(steps):
    dist.barrier()  # BUG
