"""Behind the loop over a loader, whose end nobody saw, rank 1 has another number of classes.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; sizes
fix: one size
never: ragged; last of its; drop_last
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
loader = DataLoader(TensorDataset(torch.ones(16, 4)), batch_size=2)
batches = iter(loader)
for _ in range(len(loader)):
    (x,) = next(batches)
    dist.all_reduce(x.sum())
dist.all_reduce(torch.zeros(9 if rank == 1 and not TWIN else 10))  # BUG
