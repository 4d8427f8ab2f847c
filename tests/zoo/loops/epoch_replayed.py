"""Rank 1's loss is not finite in the fourth epoch: it alone goes through the epoch once more.

ranks: 3
expect: shape_mismatch role_mismatch op_mismatch
suspects: 1
status: diverged
cause: BUG; rank 1; continue; loss_is_bad; equal rounds
fix: decide together
never: drop_last; loop ended earlier; join()
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
replayed: list[int] = []


def train_epoch() -> None:
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def loss_is_bad(epoch: int) -> bool:
    if (rank, epoch) != (1, 3) or replayed or TWIN:
        return False
    replayed.append(epoch)
    return True


def validate() -> None:
    dist.all_reduce(torch.ones(3))  # BUG


epoch = 0
while epoch < 6:
    train_epoch()
    if loss_is_bad(epoch):
        continue
    validate()
    epoch += 1
