r"""A rank recomputes a large input in backward, and what it received with it; all others do not.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 2
status: hung
cause: rank 2; BUG; recv; backward(); ran again
fix: checkpoint*
never: drop_last; do not show which
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from tests.zoo.common import TWIN, init

SIZES = ((2, 2, 2, 2),) * 5 + ((2, 2, 9, 2), (2, 2, 2, 2))


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

    def forward(self, x: torch.Tensor) -> Any:
        """The same; of much input nothing is kept but that."""
        if len(x) > 4 and not TWIN:
            return checkpoint(self.run, x, use_reentrant=False)
        return self.run(x)


rank = init()
block = Block()
for sizes in SIZES:
    loss = block(torch.ones(sizes[rank], 2)).sum()
    loss.backward()
    dist.all_reduce(block.weight.grad)
    block.weight.grad = None
dist.destroy_process_group()
