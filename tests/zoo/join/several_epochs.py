"""A barrier under join(), in the third epoch only: two epochs with uneven inputs went well before.

Rank 0 has 2 batches in each epoch, rank 1 has 3.

expect: op_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 2 batches; 3 | 3rd; BUG; barrier
fix: out of the | same number of batches | throw_on_early_termination
never: /-\\d+ batch/; /\\b([04-9]|1\\d) batch/; /\\b([4-9]|1\\d)th (batch|forward)/
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for epoch in range(3):
    with model.join():
        for _ in range(2 + rank):
            model(torch.ones(1, 1)).sum().backward()
            if epoch == 2 and not TWIN:
                dist.barrier()  # BUG
