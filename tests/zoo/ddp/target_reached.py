"""Rank 2 reaches the loss that it was told to reach, and leaves the epoch; its data had more.

ranks: 3
expect: role_mismatch shape_mismatch op_mismatch dtype_mismatch
suspects: 2
status: diverged
cause: rank 2; left the loop; if value < TARGET; with a break; not come to its end
fix: all ranks decide together; broadcasts | all_reduce
never: drop_last; Uneven inputs; join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

TARGET = 0.5

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 1))
loader = DataLoader(TensorDataset(torch.ones(12, 2)), batch_size=2)
seen = 0
for (batch,) in loader:
    loss = model(batch).square().mean()
    loss.backward()  # BUG
    seen += len(batch)
    value = 0.1 if (rank, seen) == (2, 8) and not TWIN else 1.0
    if value < TARGET:
        break
total = torch.tensor([seen, 1])
dist.all_reduce(total)  # BUG
