"""Each rank calls the function that reduces from lines of its own, in the same order: legal.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init


def total(value: float) -> float:
    summed = torch.tensor([value])
    dist.all_reduce(summed)
    return float(summed)


def report(rank: int) -> str:
    if rank == 0:
        loss, norm = total(1.0), total(2.0)
        return f"loss {loss}, norm {norm}"
    loss = total(1.0)
    norm = total(2.0)
    return f"{loss} {norm}"


def depth(node: int) -> float:
    """Trees of another shape on each rank, with as many leaves."""
    return total(1.0) if node == 0 else depth(node - 1)


rank = init()
for step in range(5):
    report(rank)
    for n in (rank, step, rank + step):
        depth(n)
