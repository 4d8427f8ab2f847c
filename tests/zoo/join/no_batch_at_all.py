"""A barrier under join(), and rank 0 gets no batch at all.

expect: op_mismatch
suspects: 1
status: diverged
cause: rank 0; no batch | 0 batches | out of inputs; rank 1; 1st | 1 batch | first; BUG; barrier
fix: out of the | same number of batches | throw_on_early_termination
never: /-\\d+ batch/; model 2
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join():
    for _ in range(2 * rank):
        model(torch.ones(1, 1)).sum().backward()
        if not TWIN:
            dist.barrier()  # BUG
