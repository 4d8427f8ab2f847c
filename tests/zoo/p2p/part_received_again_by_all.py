r"""All ranks recompute late inputs in backward, and what they received; the last comes to it first.

ranks: 4
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 3; BUG; recv; backward(); ran again
fix: checkpoint*
never: drop_last; more than half of the group
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from tests.zoo.common import TWIN, init

STEPS, LATE = 7, 5


class Take(torch.autograd.Function):
    """The sum of the ranks before; its gradient goes back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(2)
        if dist.get_rank():
            dist.recv(total, src=dist.get_rank() - 1)  # BUG
        return x + total

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        if dist.get_rank():
            dist.send(grads[0].sum(0), dst=dist.get_rank() - 1)
        return grads[0]


class Give(torch.autograd.Function):
    """The sum so far to the next rank; its gradient comes back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() + 1 < dist.get_world_size():
            dist.send(x.sum(0), dst=dist.get_rank() + 1)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        more = torch.zeros(2)
        if dist.get_rank() + 1 < dist.get_world_size():
            dist.recv(more, src=dist.get_rank() + 1)
        return grads[0] + more


class Block(torch.nn.Module):
    """Squares what it has and what comes before it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """All of it."""
        taken: torch.Tensor = Take.apply(x * self.weight)  # type: ignore[no-untyped-call]
        given: torch.Tensor = Give.apply(taken.square())  # type: ignore[no-untyped-call]
        return given

    def forward(self, x: torch.Tensor, is_late: bool) -> Any:
        """The same; late nothing is kept but its input."""
        is_kept = is_late and not TWIN
        return checkpoint(self.run, x, use_reentrant=False) if is_kept else self.run(x)


rank = init()
block = Block()
for step in range(STEPS):
    loss = block(torch.ones(2, 2), step >= LATE).sum()
    loss.backward()
    dist.all_reduce(block.weight.grad)
    block.weight.grad = None
dist.destroy_process_group()
