"""Two models under one Join, and a barrier in the loop.

expect: op_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 3 batches; 4 | 4th; BUG; barrier
fix: out of the | same number of batches | throw_on_early_termination
never: 6 batches; 7 batches; 8 batches; model 3
"""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
student = DistributedDataParallel(torch.nn.Linear(2, 2))
teacher = DistributedDataParallel(torch.nn.Linear(2, 2))
with Join([student, teacher]):
    for _ in range(3 + rank):
        student(torch.ones(1, 2)).sum().backward()
        teacher(torch.ones(1, 2)).sum().backward()
        if not TWIN:
            dist.barrier()  # BUG
