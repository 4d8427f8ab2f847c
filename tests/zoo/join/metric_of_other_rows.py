"""Three ranks under join(); the two that still train reduce a metric that rank 0 knows nothing of.

ranks: 3
expect: role_mismatch
suspects: 1 2
status: diverged
cause: uneven; rank 0; ranks 1-2; 3 batches; 4; out of inputs | ran out | no input left; all_reduce;
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
    for _ in range(3 + (rank > 0)):
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
        if not TWIN:
            dist.all_reduce(loss.detach().reshape(1))  # BUG
