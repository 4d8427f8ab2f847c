"""join() over batches that are each run twice, in two epochs: rank 0 has 2 batches, rank 1 has 3.

expect: nothing
status: aligned
never: /had [14-9] batch/; /-\\d+ batch/
"""

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
loader = DataLoader(TensorDataset(torch.ones(2 + rank, 1)), batch_size=1)
for _ in range(2):
    with model.join():
        for (batch,) in loader:
            for view in (batch, -batch):
                model(view).sum().backward()
