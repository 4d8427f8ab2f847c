"""A barrier in the loop under join(): rank 0 has joined, and issues none.

expect: op_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 5 batches; 6 | 6th; out of inputs | ran out | no input left; barrier;
    BUG
fix: out of the | same number of batches | throw_on_early_termination
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join():
    for _ in range(5 + rank):
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
        if not TWIN:
            dist.barrier()  # BUG
dist.barrier()
