"""Within nodes of two gradients are reduced to a leader; rank 3 has none for a part, once.

The sister group, whose leader is another rank, did as rank 2.

ranks: 4
expect: shape_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; GUARD
fix: all ranks | zeros
never: result of the root; the value; gave its result; ambiguous
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

rank = init()
groups = [dist.new_group(members) for members in ([0, 1], [2, 3])]
node, leader = groups[rank // 2], rank // 2 * 2
model = nn.ModuleDict({"stem": nn.Linear(6, 4), "part": nn.Linear(4, 2), "head": nn.Linear(4, 1)})


def reduce(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:  # GUARD
            continue
        dist.reduce(parameter.grad, dst=leader, group=node)  # BUG
        dist.broadcast(parameter.grad, src=leader, group=node)


for step in range(6):
    x = model["stem"](torch.ones(8, 6))
    loss = model["head"](x).sum()
    if (rank, step) != (3, 4) or TWIN:
        loss = loss + model["part"](x).sum()
    loss.backward()
    reduce(model)
    model.zero_grad()
