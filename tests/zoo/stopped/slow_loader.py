"""Rank 1 waits for its DataLoader.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; data | batch; SLOW
fix: load*; num_workers
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from tests.zoo.common import TWIN, init


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        if (rank, index) == (1, 2) and not TWIN:
            time.sleep(60)  # SLOW
        return index


rank = init(timedelta(seconds=7))
for batch in DataLoader(Numbers(), batch_size=None):  # BUG
    dist.all_reduce(torch.tensor(batch))  # BUG
