"""The worker of rank 1's DataLoader never comes back, in the loop of a DDP training.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; DataLoader; LOOP; BUG
fix: num_workers | worker | timeout
never: ran out of inputs; Uneven inputs; DistributedSampler; model.join()
"""

import time
from datetime import timedelta

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from tests.zoo.common import TWIN, init


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        if (rank, index) == (1, 6) and not TWIN:
            time.sleep(60)
        return torch.ones(4)


rank = init(timedelta(seconds=7))
model = DistributedDataParallel(nn.Linear(4, 1))
for batch in DataLoader(Samples(), batch_size=2, num_workers=1):  # LOOP
    model(batch).sum().backward()  # BUG
