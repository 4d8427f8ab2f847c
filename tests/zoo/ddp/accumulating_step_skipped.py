"""Every third batch is accumulated only; rank 1 skips the backward of another one, the fifth.

``no_sync()`` is entered for the same batches on every rank: rank 1 is ahead, and has entered more.

ranks: 3
expect: shape_mismatch role_mismatch
suspects: 1
status: diverged
cause: rank 1; iteration 5; skip* | left out; BUG; GUARD
fix: every rank | all ranks
never: no_sync() was not entered; find_unused_parameters
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for step in range(1, 13):
    with nullcontext() if step % 3 != 1 else model.no_sync():
        loss = model(torch.ones(1, 1)).sum()
        if (rank, step) == (1, 5) and not TWIN:  # GUARD
            continue
        loss.backward()  # BUG
    if step == 9:
        dist.all_reduce(torch.ones(3))
