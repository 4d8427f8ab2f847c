"""Rank 0 of two has a batch less: that it alone saves is not what parted them there.

Its save has a partner, where rank 1 waits for it; rank 1 is not there yet.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 0 had 3; rank 1 got to its 4th; DataLoader
fix: same number of batches | drop_last=True
never: only rank 0 was under; asks for the rank
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(3, 3))
rows = 3 if rank == 0 and not TWIN else 4
data = DataLoader(TensorDataset(torch.ones(rows, 3)))
for _ in range(3):
    for (batch,) in data:
        model(batch).sum().backward()  # BUG
    if rank == 0:
        torch.save(model.module.state_dict(), "/dev/null")
        dist.barrier()
    if rank != 0:
        dist.barrier()
