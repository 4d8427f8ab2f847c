"""Rank 0 averages a loss that is just as large as the gradients: no backend can tell them apart.

ranks: 3
expect: role_mismatch
suspects: 0
status: diverged
cause: rank 0; all_reduce; BUG; extra | only rank 0 | rank 0 alone | did not
fix: every rank | all ranks
never: find_unused_parameters; take part in the loss; loop ended
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
for step in range(4):
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()
    if step == 2 and (rank == 0 or TWIN):
        dist.all_reduce(loss.detach().reshape(1))  # BUG
