"""The learner sends a tied weight twice, in a loop of its own; the workers take each once.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; PUSH; PULL
fix: equally often
never: logs do not show; left out; drop_last
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

rank = init()
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
model[1].weight = model[0].weight


def push() -> None:
    for _, weight in model.named_parameters(remove_duplicate=TWIN):  # PUSH
        dist.broadcast(weight.data, src=0)  # BUG


def pull() -> None:
    for weight in model.parameters():  # PULL
        dist.broadcast(torch.empty_like(weight), src=0)


if rank == 0:
    push()
else:
    pull()
dist.all_reduce(torch.ones(1))
