"""A worker of rank 1's DataLoader fails at a sample: the worker's own words are what matters.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; ValueError; corrupt JPEG: sample 5; BUG
fix: raised
"""

import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from tests.zoo.common import TWIN, init


class Images(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if (rank, index) == (1, 5) and not TWIN:
            raise ValueError(f"corrupt JPEG: sample {index}")  # BUG
        return index


rank = init()
for batch in DataLoader(Images(), batch_size=2, num_workers=1):
    dist.all_reduce(batch)
