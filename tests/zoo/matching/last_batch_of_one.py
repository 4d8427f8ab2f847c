"""The last batch of rank 1 is smaller, and what is reduced has a row for each sample.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; ragged; last of its 8 batches
fix: drop_last
never: a set; another order
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
rows = torch.ones(15 if rank == 1 and not TWIN else 16, 2)
for _ in range(2):
    for (x,) in DataLoader(TensorDataset(rows), batch_size=2):
        dist.all_reduce(x)  # BUG
    dist.barrier()
