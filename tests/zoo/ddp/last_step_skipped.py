"""Rank 1 finds the last loss of an epoch not finite, and goes on without its backward().

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: true on rank 1; BUG; backward; GUARD
fix: all ranks | every rank
never: left the loop; pad; rank 0 had gone on
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def epoch(number: int) -> None:
    total = torch.zeros(())
    for step in range(3):
        x = torch.ones(2, 4)
        if (rank, number, step) == (1, 2, 2):
            x[0] = float("inf")
        loss = model(x).square().mean()
        if not torch.isfinite(loss) and not TWIN:  # GUARD
            continue
        optimizer.zero_grad()
        loss.backward()  # BUG
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)


for number in range(4):
    epoch(number)
dist.destroy_process_group()
