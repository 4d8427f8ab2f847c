"""All calls are made by the project's own module; rank 2 leaves save() early, before its barrier.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; barrier; save*; BUG; left out | did not | skip*
fix: every rank | all ranks
never: ragged; left the loop; loop ended
"""

import torch

from tests.zoo import comm
from tests.zoo.common import TWIN, init


def train(step: int) -> None:
    comm.total(torch.ones(4))


def save(step: int) -> None:
    if (rank, step) == (2, 3) and not TWIN:
        return  # the disk is full there
    comm.meet()  # BUG


rank = init()
for step in range(6):
    train(step)
    save(step)
