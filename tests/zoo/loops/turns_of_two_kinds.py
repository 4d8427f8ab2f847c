"""Generator and discriminator are trained in turn; rank 1 skips an empty batch, and is a turn off.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; EMPTY; `if not rows:`; `continue`; rows = 0 if (rank, step) == (1, 7); call 15
fix: EMPTY; not rows; every rank
never: issue the same collectives in each; not decide about them; left out one
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def average(gradient: torch.Tensor) -> None:
    dist.all_reduce(gradient)


def train_discriminator() -> None:
    average(torch.ones(4))
    average(torch.ones(16))  # BUG


def train_generator() -> None:
    average(torch.ones(4))
    average(torch.ones(32))


rank = init()
for step in range(12):
    rows = 0 if (rank, step) == (1, 7) and not TWIN else 4
    if not rows:  # EMPTY
        continue
    if step % 2 == 0:  # TURN
        train_discriminator()
    else:
        train_generator()
dist.destroy_process_group()
