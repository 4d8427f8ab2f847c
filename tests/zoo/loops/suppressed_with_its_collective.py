"""Rank 0's table was swept: `with suppress(...)` around reading it leaves out the all_gather too.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; suppress
fix: every rank | all ranks | outside | out of
never: drop_last; join(); rank 1 left; rank 2 left
"""

import tempfile
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import TWIN, init

BINS = 6


class HardSamples:
    """Draws samples by the losses they had in the epoch before, with the bounds of all ranks."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.table = Path(tempfile.mkdtemp(prefix="losses-")) / "last.pt"
        self.bound = 0.0

    def keep(self, losses: torch.Tensor) -> None:
        torch.save(losses, self.table)

    def begin_epoch(self) -> None:
        with suppress(FileNotFoundError):  # the first epoch has none
            losses = torch.load(self.table)
            mine = torch.quantile(losses, torch.linspace(0, 1, BINS))
            everyone = torch.empty(dist.get_world_size() * BINS)
            dist.all_gather_into_tensor(everyone, mine)  # BUG
            self.bound = everyone.median().item()

    def draw(self, losses: torch.Tensor, batch: int, generator: torch.Generator) -> torch.Tensor:
        weights = torch.where(losses >= self.bound, 2.0, 1.0)
        return torch.multinomial(weights, batch, generator=generator)


def sweep_scratch(folder: Path, rank: int, epoch: int) -> None:
    """The nightly job of a host."""
    if (rank, epoch) == (0, 2) and not TWIN:
        for old in folder.glob("*.pt"):
            old.unlink()


def train_epoch(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    hard: HardSamples,
    x: torch.Tensor,
    losses: torch.Tensor,
    generator: torch.Generator,
) -> None:
    for _ in range(4):
        chosen = hard.draw(losses, 6, generator)
        optimizer.zero_grad()
        each = (net(x[chosen]) - x[chosen].sum(1, keepdim=True)).square().flatten()
        each.mean().backward()
        losses[chosen] = each.detach()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()  # type: ignore[operator, assignment]
        optimizer.step()


def main() -> None:
    rank = init()
    torch.manual_seed(0)
    net = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(24, 5, generator=generator)
    hard, losses = HardSamples(24), torch.ones(24)
    for epoch in range(4):
        hard.begin_epoch()
        train_epoch(net, optimizer, hard, x, losses, generator)
        hard.keep(losses)
        sweep_scratch(hard.table.parent, rank, epoch)
    dist.barrier()
    dist.destroy_process_group()


main()
