"""join() over uneven inputs, and a barrier when it is left; both as gloo and as NCCL have it.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for as_nccl in (False, True):
    with model.join():
        for _ in range(5 + rank):
            model(torch.ones(1, 1)).sum().backward()
    if as_nccl:
        dist.all_reduce(torch.zeros(1))
    else:
        dist.barrier()
