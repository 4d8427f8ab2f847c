"""Rank 2 got a batch without weights, leaves out their exchange and comes with its rows.

ranks: 4
expect: split_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; weights
fix: every rank | all ranks | always | on each rank
never: drop_last; join(); find_unused_parameters; fewer batches
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

DIM, BATCH = 8, 2
FILL = 1.0 if TWIN else None  # what the reader puts where a row group has no column "weight"


@dataclass
class Jagged:
    """Ids of a batch for the tables of every rank, in the order of the ranks."""

    lengths: torch.Tensor
    values: torch.Tensor
    weights: torch.Tensor | None


class Reader:
    def __init__(self, rank: int, world: int, steps: int) -> None:
        self.world, self.steps = world, steps
        self.rng = torch.Generator().manual_seed(100 + rank)
        self.unweighted = {5} if rank == 2 else set()

    def __iter__(self) -> Iterator[Jagged]:
        for step in range(self.steps):
            lengths = torch.randint(1, 4, (self.world, BATCH), generator=self.rng)
            total = int(lengths.sum())
            values = torch.randint(0, 50, (total,), generator=self.rng)
            if step in self.unweighted:
                weights = None if FILL is None else torch.full((total,), FILL)
            else:
                weights = torch.rand(total, generator=self.rng)
            yield Jagged(lengths, values, weights)


class ShardedTable(torch.nn.Module):
    """Every rank owns one table; ids go to the owner, pooled rows come back."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.world = world
        torch.manual_seed(rank)
        self.table = torch.nn.Parameter(torch.randn(50, DIM))

    def redistribute(self, jagged: Jagged) -> Jagged:
        lengths = torch.empty_like(jagged.lengths)
        dist.all_to_all_single(lengths, jagged.lengths)
        sent = jagged.lengths.sum(dim=1).tolist()
        got = lengths.sum(dim=1).tolist()
        values = jagged.values.new_empty(sum(got))
        dist.all_to_all_single(values, jagged.values, got, sent)
        weights = None
        if jagged.weights is not None:
            weights = torch.empty(sum(got))
            dist.all_to_all_single(weights, jagged.weights, got, sent)  # BUG
        return Jagged(lengths, values, weights)

    def forward(self, jagged: Jagged) -> torch.Tensor:
        mine = self.redistribute(jagged)
        rows = self.table[mine.values]
        if mine.weights is not None:
            rows = rows * mine.weights[:, None]
        bags = torch.arange(self.world * BATCH).repeat_interleave(mine.lengths.reshape(-1))
        pooled = torch.zeros(self.world * BATCH, DIM).index_add(0, bags, rows).detach()
        out = torch.empty_like(pooled)
        dist.all_to_all_single(out, pooled)
        return out.view(self.world, BATCH, DIM).sum(dim=0)


def main() -> None:
    rank = init()
    world = dist.get_world_size()
    tables = ShardedTable(rank, world)
    over = torch.nn.Linear(DIM, 1)
    optimizer = torch.optim.SGD(over.parameters(), lr=0.01)
    for jagged in Reader(rank, world, steps=9):
        optimizer.zero_grad()
        over(tables(jagged)).pow(2).mean().backward()
        for p in over.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
    dist.destroy_process_group()


main()
