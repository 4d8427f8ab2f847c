"""Rank 1 counts in int64, the others in float32.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1; int64; float32; BUG
fix: dtype
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
count = torch.ones(4, dtype=torch.int64 if rank == 1 and not TWIN else torch.float32)
dist.all_reduce(count)  # BUG
