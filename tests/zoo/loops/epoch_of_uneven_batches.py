"""Epochs of two, three and four batches; in the fourth rank 1 has one batch more than the others.

No round is like another: nothing tells that a round was begun again.

ranks: 3
expect: shape_mismatch role_mismatch op_mismatch uneven_inputs
suspects: 1
status: diverged
cause: BUG; rank 1; loop
fix: same number | same length | equally often
never: equal rounds before; begun again; began
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train_epoch(batches: int) -> None:
    for batch in [torch.ones(2, 4)] * batches:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


def validate() -> None:
    dist.all_reduce(torch.ones(3))  # BUG


for batches in (2, 3, 4, 2):
    more = (rank, batches, len(dist.get_process_group_ranks(dist.group.WORLD))) == (1, 4, 3)
    train_epoch(batches + (more and not TWIN))
    validate()
