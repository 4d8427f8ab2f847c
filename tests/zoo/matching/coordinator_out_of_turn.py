"""Rank 0 tells the others what to do, by lines and functions of its own; once it tells more.

A note of the size of what the others wait for is taken for that: they are out of step by one call.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; TAKES; /(since|from) call 14/
fix: BUG | branch
never: sizes; drop_last; left the loop
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def coordinate(rounds: int) -> None:
    for n in range(rounds):
        dist.broadcast(torch.tensor([1, n]), 0)
        if n == 4 and not TWIN:
            dist.broadcast(torch.tensor([0, n]), 0)  # BUG
        dist.broadcast(torch.tensor([n, n]), 0)
        dist.all_reduce(torch.ones(1))
    dist.broadcast(torch.tensor([2, 0]), 0)


def work() -> None:
    order, limits = torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    dist.broadcast(order, 0)
    while order[0] == 1:
        dist.broadcast(limits, 0)  # TAKES
        dist.all_reduce(torch.ones(1))
        dist.broadcast(order, 0)


if init() == 0:
    coordinate(7)
else:
    work()
