"""Rank 0 looks into a data pipe's loader; an iterator over it makes a new group, with all ranks.

ranks: 3
expect: group_mismatch missing_call
suspects: 0
status: diverged hung
cause: rank 0; BUG | EPOCH; DataLoader | group | data pipe | preview | new_group
fix: every rank | all ranks
never: drop_last; join(); /ranks? (1|2|1,2|1-2|1 and 2) (raised|died|is busy|are busy)/
limit: 10
"""

from collections.abc import Container

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.datapipes.iter import IterableWrapper

from tests.zoo.common import TWIN, init

EPOCHS = 4


def make_row(index: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(index)
    return torch.randn(3, generator=generator)


def build_loader() -> DataLoader[torch.Tensor]:
    pipe = IterableWrapper(range(36)).shuffle().sharding_filter().map(make_row)
    return DataLoader(pipe, batch_size=4, shuffle=True, num_workers=0)


class Preview:
    """Shows now and then what the augmentation makes of the data."""

    def __init__(self, every: int, ranks: Container[int]) -> None:
        self.every = every
        self.ranks = ranks

    def show(self, epoch: int, loader: DataLoader[torch.Tensor]) -> None:
        if epoch % self.every or dist.get_rank() not in self.ranks:
            return
        rows = next(iter(loader))  # BUG
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: rows from {rows.min():.2f} to {rows.max():.2f}")


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.weights = torch.zeros(3)
        self.loader = build_loader()

    def train_epoch(self) -> None:
        for batch in self.loader:  # EPOCH
            gradient = self.weights - batch.mean(0)
            dist.all_reduce(gradient)
            self.weights -= 0.1 * gradient / dist.get_world_size()


def main() -> None:
    init()
    trainer = Trainer()
    preview = Preview(every=2, ranks=range(3) if TWIN else (0,))
    for epoch in range(1, EPOCHS + 1):
        trainer.train_epoch()
        preview.show(epoch, trainer.loader)
    dist.barrier()
    dist.destroy_process_group()


main()
