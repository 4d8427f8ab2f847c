"""Rank 1 waits later than the others for the same collective.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for _ in range(3):
    loss = torch.ones(4)
    work = dist.all_reduce(loss, async_op=rank == 1)
    if work is not None:
        work.wait()
