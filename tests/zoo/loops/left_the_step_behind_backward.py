"""Rank 1 goes on with the next step behind its gradients, without the loss: it is a call ahead.

The others are where all have been in each step; rank 1 is in the next backward().

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; LOSS
fix: BUG
never: took no part; cut out; Keep the forward's output
"""

from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(_ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        grad = grads[0].contiguous()
        dist.all_reduce(grad)
        return grad


rank = init()
weight = torch.ones(3, requires_grad=True)
for step in range(8):
    loss: torch.Tensor = Gathered.apply(weight).sum()  # type: ignore[no-untyped-call]
    loss.backward()  # type: ignore[no-untyped-call]
    dist.all_reduce(torch.ones(3))
    shown = loss.detach()
    if rank == 1 and step == 5 and not TWIN:
        shown = shown * float("nan")
    if shown.isnan():  # BUG
        continue
    dist.broadcast(shown, src=0)  # LOSS
