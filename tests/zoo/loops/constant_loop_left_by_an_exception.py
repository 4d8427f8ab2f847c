"""A loop of a constant length is left by an exception, for rank 1 lacks a file.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG
fix: all ranks
never: equally often
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
STEPS = 8


def load(step: int) -> torch.Tensor:
    if rank == 1 and step == 5 and not TWIN:
        raise FileNotFoundError(f"shard {step}")
    return torch.ones(4)


def epoch() -> None:
    for step in range(STEPS):
        batch = load(step)
        if batch.sum() > 0:
            dist.all_reduce(batch)


for _ in range(2):
    try:
        epoch()
    except FileNotFoundError as error:
        print("end of the data:", error)
    dist.barrier()  # BUG
