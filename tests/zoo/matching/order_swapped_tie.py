"""Two ranks reduce and wait in different orders: one of them is wrong, nobody can say which.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; barrier; all_reduce; BUG; rank == 1 | branch | order
fix: same order
never: up to here the ranks agree; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
loss = torch.ones(1)
if rank == 1 and not TWIN:
    dist.barrier()  # BUG
    dist.all_reduce(loss)
else:
    dist.all_reduce(loss)
    dist.barrier()
