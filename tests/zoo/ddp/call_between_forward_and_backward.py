"""Rank 0 averages the loss for its log between forward and backward; the others are in backward.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; all_reduce; BUG; only rank 0 | rank 0 alone | extra | never
fix: every rank | all ranks
never: find_unused_parameters; take part in the loss; unused; fewer batches; model.join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for step in range(4):
    loss = model(torch.ones(1, 1)).sum()
    if step == 2 and (rank == 0 or TWIN):
        dist.all_reduce(loss.detach())  # BUG
    loss.backward()
