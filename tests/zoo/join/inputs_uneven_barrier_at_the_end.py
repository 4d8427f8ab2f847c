"""Rank 1 has one batch more, so that rank 0's barrier after the loop meets a gradient bucket.

expect: op_mismatch
suspects: none
status: diverged
cause: uneven inputs; rank 0; rank 1; 5; 6 | 6th; barrier
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
dist.barrier()  # BUG
