"""Two ranks. Rank 0 broadcasts alone in step 9; rank 1 has lived with exceptions since step 1.

These are not told to be the cause.

expect: op_mismatch
suspects: 0
status: diverged
cause: BUG; rank 0; if step == 9 | only rank 0
fix: every rank
never: corrupt; ValueError; ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


def read(step: int) -> torch.Tensor:
    if rank == 1 and step > 0:
        raise ValueError(f"corrupt file {step}")
    return torch.ones(4)


for step in range(12):
    dist.all_reduce(torch.ones(1))
    try:
        sample = read(step)
        dist.all_reduce(sample)
    except ValueError:
        dist.all_reduce(torch.zeros(4))
    if step == 9 and rank == 0 and not TWIN:
        dist.broadcast(torch.ones(2), src=0)  # BUG
