"""Ranks with 0, 1 and 2 batches under join(); whoever has one reduces the loss, as it must not.

ranks: 3
expect: shape_mismatch role_mismatch op_mismatch
suspects: 1 2
status: diverged
cause: rank 0; ranks 1-2; no batch | 0 batches | out of inputs; BUG; all_reduce
fix: out of the | same number of batches | throw_on_early_termination
never: /-\\d+ batch/; model 2; agree again
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join():
    for _ in range(rank):
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
        if not TWIN:
            dist.all_reduce(loss.detach().reshape(1))  # BUG
