"""Rank 0 writes a checkpoint while the others wait in the barrier behind it.

ranks: 3
expect: nothing
status: aligned
"""

import io
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init(timedelta(seconds=20))
model = DistributedDataParallel(torch.nn.Linear(4, 4))
for step in range(4):
    model(torch.ones(1, 4)).sum().backward()
    if step == 2:
        if rank == 0:
            torch.save(model.module.state_dict(), io.BytesIO())
            time.sleep(3)
        dist.barrier()
