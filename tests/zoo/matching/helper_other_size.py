"""All calls are made by the project's own module; rank 0 is in clip() where the others log.

There is no DataLoader in this program, and no batch.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; clip; BUG; extra; `if step == 3 and (rank == 0 or TWIN):`; depends on the rank
fix: BUG; out of; every rank
never: ragged; drop_last; DataLoader; batch
"""

import torch

from tests.zoo import comm
from tests.zoo.common import TWIN, init


def clip(gradient: torch.Tensor) -> None:
    gradient /= comm.total(gradient.abs())  # BUG


def log(loss: torch.Tensor) -> None:
    comm.total(loss)  # LOG


rank = init()
for step in range(6):
    gradient = comm.total(torch.ones(3))
    if step == 3 and (rank == 0 or TWIN):
        clip(gradient)
    log(torch.ones(1))
