"""All calls are made by the project's own module; rank 0 clips once, in bytes like all the others.

Call 8 is where it clips; what fails is call 17, where the others have left the loop.

ranks: 3
expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; clip*; BUG; call 8 | 8th; extra | only rank 0 | rank 0 alone | never
fix: every rank | all ranks | rank == 0
never: ragged; drop_last; left the loop; loop ended
"""

import torch

from tests.zoo import comm
from tests.zoo.common import TWIN, init


def clip(gradient: torch.Tensor) -> None:
    gradient /= comm.total(gradient.norm().reshape(1))  # BUG


def log(loss: torch.Tensor) -> None:
    comm.total(loss)


rank = init()
for step in range(8):
    gradient = comm.total(torch.ones(1))
    if step == 3 and (rank == 0 or TWIN):
        clip(gradient)
    log(torch.ones(1))
comm.from_rank_zero(torch.ones(1))
