"""As NCCL has it: the barrier after the loop is an all_reduce, as the gradient bucket is.

expect: shape_mismatch
suspects: none
status: diverged
cause: uneven inputs; rank 0; rank 1; 5; 6 | 6th; all_reduce
fix: same number of batches; join()
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join() if TWIN else nullcontext():
    for _ in range(5 + rank):
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()  # BUG
dist.all_reduce(torch.zeros(1))  # BUG
