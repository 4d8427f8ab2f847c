"""Two ranks. In the sixth epoch rank 1 has nothing to average: the sum of no losses is an int.

All five epochs before, both brought float32 to that line: that is told, and blames nobody.

expect: dtype_mismatch
suspects: none
status: diverged
cause: BUG; rank 1; int64; float32; rounds before; that of rank 1 is the first other one; ambiguous
fix: dtype
never: drop_last; rank 0 left; rank 1 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for epoch in range(8):
    losses = [0.5, 0.25] if (rank, epoch) != (1, 5) else []
    dist.broadcast(torch.ones(3), src=0)
    total = torch.tensor([sum(losses), len(losses)], dtype=torch.float32 if TWIN else None)
    dist.all_reduce(total)  # BUG
