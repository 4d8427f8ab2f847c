"""No DDP: rank 2's loader ends after 5 batches, the others' have 6; each batch reduces a count.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; loader | DataLoader; 5 batches | after 5; 6 | 6th; BUG
fix: DistributedSampler | drop_last | same number of batches
never: join(); if rank == 0; took that branch
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
rows = 10 if rank == 2 and not TWIN else 12
for (batch,) in DataLoader(TensorDataset(torch.ones(rows)), batch_size=2):
    dist.all_reduce(batch.sum())  # BUG
dist.barrier()
