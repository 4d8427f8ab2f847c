"""Rank 1 cannot read its checkpoint, catches that, and trains from the start; the others resume.

Both ways make the same calls, until those who resumed report after a further step.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; EXCEPT; BUG | TRY; cut off
fix: rank 1; all ranks; EXCEPT
never: ran longer; instead of going on
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train(first: int, last: int) -> None:
    for step in range(first, last):
        dist.all_reduce(torch.ones(4))
        if step % 5 == 4:
            dist.broadcast(torch.ones(1), src=0)


def load(rank: int) -> int:
    if rank == 1 and not TWIN:
        raise ValueError("the checkpoint is cut off")
    return 3


def run(rank: int) -> None:
    train(0, 3)
    try:
        train(load(rank), 12)  # TRY
    except ValueError:  # EXCEPT
        train(0, 12)  # BUG


run(init())
