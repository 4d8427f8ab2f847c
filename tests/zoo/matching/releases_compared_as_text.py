r"""The second node has release 1.10, as a text before 1.9: it sends gradients whole, not as halves.

ranks: 4
expect: dtype_mismatch
suspects: none
status: diverged
cause: BUG; NEW; at_least | HALVES_SINCE | release
fix: every rank | all ranks | same | agree
never: drop_last; join(); /only rank \d/
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

RELEASES = ["1.9.1+cpu", "1.10.2+cpu"]  # as installed on node 0 and on node 1
HALVES_SINCE = "1.9"
WARMUP = 4


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("+")[0].split("."))


class Exchange:
    """Averages gradients; after the warm-up in half precision where the installed release can."""

    def __init__(self, release: str, key: Callable[[str], Any]) -> None:
        self.release, self.key = release, key
        self.steps = 0

    def at_least(self, since: str) -> bool:
        return self.key(self.release) >= self.key(since)  # type: ignore[no-any-return]

    def average(self, flat: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        if self.steps <= WARMUP:
            dist.all_reduce(flat)
        elif self.at_least(HALVES_SINCE):
            wire = flat.half()
            dist.all_reduce(wire)  # NEW
            flat = wire.float()
        else:
            dist.all_reduce(flat)  # BUG
        return flat / dist.get_world_size()


def train_step(
    net: nn.Module, optimizer: torch.optim.Optimizer, exchange: Exchange, x: torch.Tensor
) -> None:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), x.mean(1, keepdim=True)).backward()  # type: ignore[no-untyped-call]
    params = list(net.parameters())
    flat = exchange.average(torch.cat([p.grad.flatten() for p in params]))  # type: ignore[union-attr]
    sizes = [p.numel() for p in params]
    for p, part in zip(params, flat.split(sizes), strict=True):  # type: ignore[no-untyped-call]
        p.grad.copy_(part.view_as(p))  # type: ignore[union-attr]
    optimizer.step()


def main() -> None:
    rank = init()
    node = rank // 2
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    exchange = Exchange(RELEASES[node], key=numbers if TWIN else str)
    for step in range(9):
        torch.manual_seed(10 * step + rank)
        train_step(net, optimizer, exchange, torch.randn(4, 8))
    final = torch.tensor([float(p.detach().norm()) for p in net.parameters()])
    dist.all_reduce(final, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()


main()
