"""Rank 1 scales a sum that is still on its way, and only then waits for it.

expect: unwaited_work
severity: warning
suspects: 1
status: aligned
cause: rank 1; wrote; before; BUG
fix: after wait* | copy
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for _ in range(3):
    gradient = torch.ones(4)
    work = dist.all_reduce(gradient, async_op=True)  # BUG
    assert work is not None
    if rank == 0 or TWIN:
        work.wait()
        gradient *= 0.5
    else:
        gradient *= 0.5
        work.wait()
dist.barrier()
