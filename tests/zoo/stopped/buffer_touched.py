"""Rank 1 writes to a tensor while it is still being reduced.

expect: unwaited_work
severity: warning
suspects: 1
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for _ in range(3):
    loss = torch.ones(4)
    work = dist.all_reduce(loss, async_op=True)  # BUG
    assert work is not None
    if rank == 1 and not TWIN:
        loss.zero_()
    work.wait()
    loss.div_(2)
dist.barrier()
