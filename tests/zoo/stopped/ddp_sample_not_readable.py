"""A sample of rank 1 cannot be read, and its DataLoader raises in the loop of a DDP training.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; OSError; sample 6 is truncated; RAISES; BUG
fix: raised
never: ran out of inputs; Uneven inputs; DistributedSampler; model.join()
"""

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
            raise OSError(f"sample {index} is truncated")  # RAISES
        return torch.ones(4)


rank = init()
model = DistributedDataParallel(nn.Linear(4, 1))
for batch in DataLoader(Samples(), batch_size=2):
    model(batch).sum().backward()  # BUG
