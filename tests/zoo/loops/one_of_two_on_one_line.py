"""One line calls either of two functions, by a condition in it that is another on rank 2.

It names both: nothing that it goes through is in another order.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG
fix: every rank | all ranks | same
never: goes through; sorted by name
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def everywhere(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value)  # BUG
    return value


def from_first(value: torch.Tensor) -> torch.Tensor:
    dist.broadcast(value, src=0)  # BUG
    return value


rank = init()
for step in range(6):
    value = torch.full((3,), float(step))
    if rank == 2 and step == 4 and not TWIN:
        value[0] = float("nan")
    from_first(value) if value.isnan().any() else everywhere(value)
