"""Rank 1 has a batch without a mask, and leaves out the count of masked tokens before backward().

The first step of a later epoch: no two equal rounds of calls come before it.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; without it; GUARD; iterations before; `return mask * 0 if
fix: every rank
never: find_unused_parameters; took no part; rank 0 had gone on; left the loop
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def masked(rank: int, epoch: int, step: int) -> torch.Tensor:
    mask = torch.ones(3)
    return mask * 0 if (rank, epoch, step) == (1, 1, 0) else mask


rank = init()
model = DistributedDataParallel(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for step in range(3):
        mask = masked(rank, epoch, step)
        losses = model(torch.ones(3, 3)).mean(1) * mask
        count = mask.sum()
        if count > 0 or TWIN:  # GUARD
            dist.all_reduce(count)  # BUG
        optimizer.zero_grad()
        (losses.sum() / count.clamp(min=1)).backward()
        optimizer.step()
    total = torch.zeros(5)
    dist.all_reduce(total)
dist.destroy_process_group()
