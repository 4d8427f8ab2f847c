"""Rank 1 skips the backward of a bad loss; the ranks are out of step until the metric is reduced.

Every parameter takes part in every loss, and all ranks have as many batches.

ranks: 3
expect: shape_mismatch role_mismatch
suspects: 1
status: diverged
cause: rank 1; /(iteration|step|forward|batch|pass) [34]\\b/ | 3rd | 4th; skip* | left out | without
    | no backward; all_reduce; BUG
fix: every rank | all ranks
never: find_unused_parameters; take part in the loss; unused; fewer batches; model.join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for step in range(6):
    loss = model(torch.ones(1, 1)).sum()
    bad = (rank, step) == (1, 2)
    if bad and not TWIN:
        continue
    loss.backward()  # BUG
dist.all_reduce(torch.ones(1))
