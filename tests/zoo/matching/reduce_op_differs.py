"""Rank 1 takes the maximum where the others sum. gloo and NCCL let it pass: wrong numbers.

ranks: 3
expect: reduce_op_mismatch
suspects: 1
status: diverged
cause: rank 1; MAX; SUM; BUG
fix: same op
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
total = torch.ones(4)
dist.all_reduce(total)
op = dist.ReduceOp.MAX if rank == 1 and not TWIN else dist.ReduceOp.SUM
dist.all_reduce(total, op=op)  # BUG
dist.barrier()
