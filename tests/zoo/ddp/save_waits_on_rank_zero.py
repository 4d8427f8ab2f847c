"""Saving ends in a barrier, and only rank 0 saves.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; barrier; BUG; SAVE | save; rank == 0 | only rank 0 | rank 0 alone
fix: every rank | all ranks
never: fewer batches; loop ended; model.join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def save() -> None:
    dist.barrier()  # BUG


rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
for step in range(4):
    model(torch.ones(1, 2)).sum().backward()
    if step == 2 and (rank == 0 or TWIN):
        save()  # SAVE
