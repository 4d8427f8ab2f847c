"""Rank 0 broadcasts each step which norms come first; from step 4 on those of experts.

Ranks 1 and 2 go by their own copy of the first order. Rank 3 does as all were told.

ranks: 4
expect: deadlock missing_call
suspects: none
status: hung diverged
cause: rank 3; all_reduce
fix: order
never: let rank 3 call
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
groups = [dist.new_group([0, 1, 2, 3]), dist.new_group([1, 2, 3])]


def activations() -> None:
    x = torch.zeros(2)
    if rank > 0:
        dist.recv(x, rank - 1)
    if rank < 3:
        dist.send(x, rank + 1)


def summed(kind: int) -> None:
    if kind == 0 or rank > 0:
        dist.all_reduce(torch.ones(2), group=groups[kind])  # BUG


DENSE, EXPERTS = 0, 1
for step in range(6):
    activations()
    order = torch.tensor([DENSE, -1] if step < 4 else [EXPERTS, DENSE])
    dist.broadcast(order, src=0)
    todo = order.tolist()
    if rank in (1, 2) and not TWIN:
        todo = sorted(todo)  # BUG
    for kind in todo:
        if kind >= 0:
            summed(kind)
