"""A rank whose sample is bad sums zeros from its handler: now the one, now the other.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()


def gradient(step: int) -> torch.Tensor:
    if step % 4 == rank:
        raise ValueError("a corrupt sample")
    return torch.ones(4)


for step in range(12):
    try:
        mine = gradient(step)
        dist.all_reduce(mine)
    except ValueError:
        dist.all_reduce(torch.zeros(4))
