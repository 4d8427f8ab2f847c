"""Each batch is run twice, forward and backward, and a barrier under join() ends it.

Rank 0 has 3 batches, rank 1 has 4; the forwards are twice as many.

expect: op_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 3 batches | 6 forward*; BUG; barrier
fix: out of the | same number of batches | throw_on_early_termination
never: 6 batches; 7 batches; 8 batches; 7th; 8th
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
loader = DataLoader(TensorDataset(torch.ones(3 + rank, 1)), batch_size=1)
with model.join():
    for (batch,) in loader:
        for view in (batch, -batch):
            model(view).sum().backward()
        if not TWIN:
            dist.barrier()  # BUG
