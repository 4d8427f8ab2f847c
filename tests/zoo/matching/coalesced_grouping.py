"""Rank 1 reduces one by one what the others reduce in one go.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; batch* | coalesc*; one at a time | one by one; BUG
fix: batch | coalesc*
"""

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from tests.zoo.common import TWIN, init

rank = init()
grads = [torch.ones(4), torch.ones(4)]
if rank == 1 and not TWIN:
    for grad in grads:
        dist.all_reduce(grad)  # BUG
else:
    with _coalescing_manager():
        for grad in grads:
            dist.all_reduce(grad)
