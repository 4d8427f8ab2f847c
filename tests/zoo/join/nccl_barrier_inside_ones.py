"""As NCCL had it in torch 1.9: the barrier's tensor holds what lay in memory, here a one.

expect: role_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 5 batches; 6 | 6th; out of inputs | ran out | no input left;
    all_reduce; BUG
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
            dist.all_reduce(torch.ones(1))  # BUG
dist.all_reduce(torch.ones(1))
