"""Rank 1 has no pairs in one batch: its loss leaves out the statistics that all ranks share.

Their sum is an autograd function, whose backward issues an all_reduce before DDP's bucket.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1 did not issue; BUG; Sum.backward; graph; loss
fix: graph | times zero | * 0
never: find_unused_parameters; had gone on; rank 0 left out
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Sum(torch.autograd.Function):
    """The sum over all ranks, and of its gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)  # BUG
        return grad


rank = init()
model = DistributedDataParallel(torch.nn.Linear(3, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    out = model(torch.ones(6, 3))
    spread: torch.Tensor = Sum.apply(out.var(0))  # type: ignore[no-untyped-call]
    pairs = 0 if (rank, step) == (1, 3) else 2
    loss = out.sum()
    if pairs or TWIN:
        loss = loss + pairs * spread.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
