"""An expert of rank 2 gets no tokens and gives plain zeros: its backward has no all_to_all.

ranks: 3
expect: op_mismatch missing_call
suspects: 2
status: diverged hung
cause: rank 2; all_to_all*; backward; graph | autograd | gradient; BUG
fix: graph | times zero | * 0 | requires_grad | dummy
never: find_unused_parameters; logs do not show; left the loop; loop ended
"""

from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Exchange(torch.autograd.Function):
    """all_to_all, and back in backward, as every MoE layer has it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(grads[0])
        dist.all_to_all_single(out, grads[0].contiguous())  # BUG
        return out


def exchange(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = Exchange.apply(x)  # type: ignore[no-untyped-call]
    return out


rank = init()
expert = torch.nn.Linear(1, 1)
for step in range(4):
    tokens = torch.ones(3, 1, requires_grad=True)
    here = exchange(tokens)
    no_tokens = (rank, step) == (2, 2)
    if no_tokens:
        done = here * 0.0 if TWIN else torch.zeros(3, 1, requires_grad=True)
    else:
        done = expert(here)
    exchange(done).sum().backward()  # type: ignore[no-untyped-call]  # BUG
    dist.all_reduce(torch.ones(1))
