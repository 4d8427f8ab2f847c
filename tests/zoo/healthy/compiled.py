"""A compiled function with a collective inside, on every rank.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from tests.zoo.common import init

WORLD = [0, 1]


@torch.compile(backend="eager", fullgraph=True)
def step(x: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = funcol.all_reduce(x * 2, "sum", WORLD)
    return total + 1


rank = init()
for _ in range(3):
    step(torch.ones(4))
dist.barrier()
