"""A layer that receives its state is checkpointed for long sequences: backward receives it anew.

ranks: 3
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 2; BUG; BACK; checkpoint*
fix: recomput*
never: drop_last; join(); uneven
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.zoo.common import TWIN, init

WIDTH, LONG = 8, 16
STATEFUL_TOO = not TWIN  # checkpoint the layers that hand on a state as well


class Receive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, before: int) -> torch.Tensor:
        ctx.before = before
        state = torch.empty(WIDTH)
        dist.recv(state, src=before)  # BUG
        return x + state

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        dist.send(grad.sum(dim=0), dst=ctx.before)
        return grad, None


class Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, after: int) -> torch.Tensor:
        ctx.after = after
        dist.send(x[-1].contiguous(), dst=after)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        downstream = torch.empty(WIDTH)
        dist.recv(downstream, src=ctx.after)  # GRADIENT
        grad = grad.clone()
        grad[-1] += downstream
        return grad, None


class Scan(nn.Module):
    """A linear-attention layer; each rank holds a part of the sequence."""

    stateful = True

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.rank, self.world = rank, world
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        if self.rank > 0:
            x = Receive.apply(x, self.rank - 1)  # type: ignore[no-untyped-call]
        x = torch.tanh(self.mix(x))
        if self.rank < self.world - 1:
            x = Send.apply(x, self.rank + 1)  # type: ignore[no-untyped-call]
        return x


class Mlp(nn.Sequential):
    stateful = False


def forward(layers: nn.ModuleList, x: Any, length: int) -> Any:
    for layer in layers:
        if length > LONG and (STATEFUL_TOO or not layer.stateful):
            x = checkpoint(layer, x, use_reentrant=False)
        else:
            x = layer(x)
    return x


rank, world = init(), dist.get_world_size()
torch.manual_seed(5)
layers = nn.ModuleList([Mlp(nn.Linear(WIDTH, WIDTH), nn.GELU()), Scan(rank, world)])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
for length in (12, 9, 15, 12, 24, 12, 30):
    part = torch.randn(length // world, WIDTH, requires_grad=True)
    loss = forward(layers, part, length).pow(2).mean()
    loss.backward()  # BACK
    for p in layers.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
