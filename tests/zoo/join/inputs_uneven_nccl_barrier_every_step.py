"""As NCCL has it: rank 1 has one batch more, and the barrier of every step is an all_reduce.

expect: missing_call
suspects: none
status: hung
cause: uneven inputs; rank 0; rank 1; 5; 6 | 6th
fix: same number of batches; all_reduce
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for _ in range(5 if TWIN else 5 + rank):
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()  # BUG
    dist.all_reduce(torch.zeros(1))
