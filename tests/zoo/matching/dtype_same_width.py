"""int32 against float32: the bytes fit, so every backend adds them up and nobody hears of it.

ranks: 3
expect: dtype_mismatch
suspects: 2
status: diverged
cause: rank 2; int32; float32; BUG
fix: dtype
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
total = torch.ones(4, dtype=torch.int32 if rank == 2 and not TWIN else torch.float32)
dist.all_reduce(total)  # BUG
dist.barrier()
