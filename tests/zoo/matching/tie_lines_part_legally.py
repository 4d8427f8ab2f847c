"""Two ranks. Rank 0 logs from a line of its own, which is legal; later the sizes differ.

Where the lines parted has nothing to do with it, and one size is as good as the other: nobody may
be blamed.

expect: shape_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; float32[4]; float32[6]; BUG
fix: size | shape
never: since call 6; only rank 0; rank 0 alone; ragged; LOGS
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(8):
    width = 6 if (rank, step) == (1, 5) and not TWIN else 4
    dist.all_reduce(torch.ones(width))  # BUG
    if step == 2 and rank == 0:
        dist.broadcast(torch.ones(1), src=0)  # LOGS
    else:
        dist.broadcast(torch.ones(1), src=0)
