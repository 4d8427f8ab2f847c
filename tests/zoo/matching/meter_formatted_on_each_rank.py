"""The same where both had formatted the meter before: that rank 1 left it out is as well possible.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG
fix: every rank | all ranks
never: Nobody else ever
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Meter:
    def __str__(self) -> str:
        total = torch.ones(2)
        dist.all_reduce(total)  # BUG
        return f"{total[0]:.3f}"


def evaluate() -> None:
    dist.all_reduce(torch.ones(2))  # BUG
    dist.broadcast(torch.ones(3), src=0)


rank = init()
for step in range(5):
    dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))
    if step < 4 or rank == 0 or TWIN:
        print(f"loss {Meter()}", flush=True)
    evaluate()
