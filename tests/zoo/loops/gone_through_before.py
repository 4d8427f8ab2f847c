"""The same loop in its second turn of the epoch: all had been in it, and rank 1 left it out by age.

Then it is not that there was nothing to go through.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG
fix: every rank | all ranks | same
never: had none on
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def refresh(names: list[str]) -> None:
    for _name in names:
        dist.broadcast(torch.ones(4), src=0)  # BUG


rank = init()
for step in range(1, 9):
    dist.all_reduce(torch.ones(3))
    if step % 2 == 0 and not (rank == 1 and step == 6 and not TWIN):
        refresh(["weight", "bias"])
