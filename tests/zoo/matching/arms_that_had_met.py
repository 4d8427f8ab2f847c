"""Leader and workers gather from two arms of one condition, rightly; then rank 2's part is shorter.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; different sizes; float32[3]
fix: one size
never: parted them; if rank == 0; instead of; stands under
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    part = torch.ones(3 if (rank, step) == (2, 4) and not TWIN else 4)
    whole = torch.zeros(3 * len(part))
    if rank == 0:
        dist.all_gather_into_tensor(whole, part)
        print(step, whole.sum())
    else:
        dist.all_gather_into_tensor(whole, part)  # BUG
