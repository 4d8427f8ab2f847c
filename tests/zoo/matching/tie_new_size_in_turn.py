"""Two ranks. Sizes have grown once before on both; now one of them grows and the other does not.

Either may have missed it: nobody is blamed.

expect: shape_mismatch
suspects: none
status: diverged
cause: BUG; rank 0; rank 1; ambiguous
fix: one size
never: is the first other one
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(16):
    late = 2 * rank if not TWIN else 0
    length = 8 if step < 6 or (step >= 8 and step < 12 + late) else 16
    dist.broadcast(torch.ones(3), src=0)
    dist.all_reduce(torch.ones(length))  # BUG
