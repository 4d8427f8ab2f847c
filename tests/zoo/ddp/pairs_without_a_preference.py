"""Both ranks go through eight batches. Rank 1 has one without any preference, and trains seven.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; NONE; forward passes
fix: NONE; every iteration
never: ran out of inputs; join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def run(model: torch.nn.Module, margins: torch.Tensor) -> float:
    total = 0.0
    for margin in margins:
        keep = margin != 0
        if not keep.any() and not TWIN:  # NONE
            continue
        loss = (model(torch.ones(3, 2)).squeeze(1) * margin).sum()
        loss.backward()  # BUG
        total += float(loss)
    return total


rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 1))
margins = torch.ones(8, 3)
margins[4] *= 1 - rank
for _ in range(2):
    seen = torch.tensor([run(model, margins)])
    dist.all_reduce(seen)
dist.destroy_process_group()
