"""Rank 2 takes its four measures in another order; one of them happens to fit one place later.

ranks: 3
expect: reduce_op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; `if rank == 2 and not TWIN:`; different calls; SUM; PRODUCT
fix: same order; all branches; every rank
never: agree again; extra; left out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def measure(*ops: dist.ReduceOp.RedOpType) -> None:
    for op in ops:
        dist.all_reduce(torch.ones(1), op=op)  # BUG


rank = init()
dist.barrier()
lowest, highest = dist.ReduceOp.MIN, dist.ReduceOp.MAX
total, product = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT
if rank == 2 and not TWIN:
    measure(product, total, lowest, highest)
else:
    measure(total, highest, product, lowest)
