"""Rank 1 has no positive pair in a step, and makes its loss of its own features, not of all.

What sums their gradients over the ranks is autograd's to run, and does not come there.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; backward; graph
fix: times zero; every rank
never: left the loop; find_unused_parameters
"""

from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, own: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own)
        return torch.stack(parts)

    @staticmethod
    def backward(_ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)  # BUG
        return total[dist.get_rank()]


rank = init()
weight = torch.ones(4, requires_grad=True)
for step in range(7):
    own = weight * step
    everyone: torch.Tensor = Gathered.apply(own)  # type: ignore[no-untyped-call]
    alone = (rank, step) == (1, 5) and not TWIN
    loss = own.sum() * 0 if alone else everyone.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    dist.all_reduce(torch.ones(2))  # BUG
    if step % 4 == 0:
        dist.reduce(loss.detach(), dst=0)
