"""0-d tensors, float32 against int64.

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
loss = torch.tensor(1) if rank == 1 and not TWIN else torch.tensor(1.0)
dist.all_reduce(loss)  # BUG
