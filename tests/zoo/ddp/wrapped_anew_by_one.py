"""The network grows by a layer when the loss of a rank's own rows is small, and is wrapped anew.

On the first of two ranks it is after the second epoch; the other goes on with the third.

expect: op_mismatch
suspects: 0
status: diverged hung
cause: rank 0; BUG; DistributedDataParallel | DDP; `if own < 0.5:`; own = torch.tensor
fix: own < 0.5; decide together; every rank
never: ambiguous; drop_last; find_unused_parameters; fewer batches
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
torch.manual_seed(0)
core = nn.Sequential(nn.Linear(4, 4))
model = DistributedDataParallel(core)


def learn() -> torch.Tensor:
    loss = torch.zeros(())
    for _ in range(4):
        loss = model(torch.ones(3, 4)).square().mean()
        loss.backward()
    return loss.detach()


def grow() -> None:
    global model
    core.append(nn.Linear(4, 4))
    model = DistributedDataParallel(core)  # BUG


for epoch in range(4):
    mean = learn()
    dist.all_reduce(mean)
    own = torch.tensor(0.0 if rank == 0 and epoch == 1 else 1.0)
    if TWIN:
        dist.all_reduce(own, dist.ReduceOp.MIN)
    if own < 0.5:
        grow()
