"""The validation loader of rank 2 has a batch less: it is back in training where others validate.

The training loaders are alike, and the call in the loop of validation is the script's own.

ranks: 4
expect: shape_mismatch op_mismatch
suspects: 2
status: diverged
cause: rank 2; loader | DataLoader; LOADS; 3 batches | after 3; 4 | 4th; BUG
fix: DistributedSampler | drop_last | same number of batches
never: join(); training loop ended; find_unused_parameters
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 1))
training = DataLoader(TensorDataset(torch.ones(10, 2)), batch_size=2)
rows = 6 if rank == 2 and not TWIN else 8
validation = DataLoader(TensorDataset(torch.ones(rows, 2)), batch_size=2)
for _ in range(2):
    for (batch,) in training:
        model(batch).sum().backward()
    for (batch,) in validation:  # LOADS
        with torch.no_grad():
            loss = model.module(batch).sum()
        dist.all_reduce(loss)  # BUG
