"""Rank 0 averages by hand over and over: a dozen mismatches, of which the first is the cause.

ranks: 4
expect: reduce_op_mismatch
suspects: 0
status: diverged
cause: rank 0; PRODUCT; SUM; BUG
fix: same op
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
total = torch.ones(4)
op = dist.ReduceOp.PRODUCT if rank == 0 and not TWIN else dist.ReduceOp.SUM
for _ in range(12):
    dist.all_reduce(total, op=op)  # BUG
