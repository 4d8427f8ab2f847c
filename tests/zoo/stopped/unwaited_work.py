"""Rank 1 never waits for what it started.

expect: unwaited_work
severity: warning
suspects: 1
status: aligned
cause: rank 1; never waited; BUG
fix: wait()
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for _ in range(3):
    loss = torch.ones(4)
    work = dist.all_reduce(loss, async_op=True)  # BUG
    assert work is not None
    if rank == 0 or TWIN:
        work.wait()
dist.barrier()
