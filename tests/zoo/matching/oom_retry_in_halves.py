"""Rank 2 runs out of memory inside a forward with norms over all ranks, and repeats it in halves.

Its first norm of the first half meets the others' second one, of the same shape; then it has two
norms more where they average gradients.

ranks: 3
expect: role_mismatch shape_mismatch
suspects: 2
status: diverged
cause: rank 2; twice | again | retr* | halves | extra | more | additional | RuntimeError |
  out of memory | exception | second
fix: all ranks | every rank | same number | together | agree* | before
never: drop_last; sampler; join
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
LIMIT = 20


class CrossNorm(nn.Module):
    """Batch norm whose statistics are those of all ranks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        statistics = torch.cat([x.detach().mean(0), x.detach().pow(2).mean(0)])
        dist.all_reduce(statistics)
        mean, square = (statistics / world).chunk(2)
        return (x - mean) / (square - mean**2).clamp(min=1e-3).sqrt()


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 1)
        self.norms = nn.ModuleList([CrossNorm(), CrossNorm()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norms[0](self.first(x)))
        if len(x) > LIMIT:
            raise RuntimeError("out of memory: tried to allocate the scores")
        x = torch.softmax(x @ x.T, -1) @ x
        out: torch.Tensor = self.last(self.norms[1](x))
        return out.pow(2).mean()


def forward_with_retry(x: torch.Tensor) -> Any:
    try:
        return net(x)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        halves = [net(half) for half in x.chunk(2)]  # BUG
        return torch.stack(halves).mean()


net = Net()
for length in [[12, 16, 14, 16], [16, 12, 16, 15], [15, 16, 18 if TWIN else 24, 16]][rank]:
    net.zero_grad()
    forward_with_retry(torch.randn(length, 4)).backward()
    flat = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
    dist.all_reduce(flat)
