"""One batch was taken for its shape; what ended the work is a list of shards, shorter on rank 1.

ranks: 2
expect: missing_call
suspects: none
status: hung
cause: rank 1 finished; BUG
fix: same length
never: not the end of the inputs; batches of the DataLoader
"""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
(batch,) = next(iter(DataLoader(TensorDataset(torch.ones(40, 3)), batch_size=4)))
for _ in range(6 if rank == 0 or TWIN else 4):
    dist.all_reduce(torch.ones(len(batch)))  # BUG
