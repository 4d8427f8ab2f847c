"""Rank 2 accumulates over three steps, the others over two.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; no_sync*; 4 times | every 3; iteration 2; `accumulate = 3
fix: no_sync*; step number | same steps | all ranks
never: find_unused_parameters; take part in the loss; fewer batches
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
accumulate = 3 if rank == 2 and not TWIN else 2
for step in range(1, 7):
    with nullcontext() if step % accumulate == 0 else model.no_sync():  # BUG
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
dist.barrier()  # BUG
