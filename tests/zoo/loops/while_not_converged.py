"""Each rank iterates until its own residual is small; that of rank 1 needs a round more.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; while; BUG; all_reduce
fix: every rank | all ranks | agree | all_reduce
never: if rank == 0; took that branch; fewer batches
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
residual = 2.0 if rank == 1 and not TWIN else 1.0
while residual > 0.1:
    residual /= 2
    dist.all_reduce(torch.ones(4))  # BUG
dist.broadcast(torch.ones(4), src=0)
