"""Rank 2's loader has a batch less: it goes on to the mean, its partner awaits the batch: a circle.

ranks: 6
expect: deadlock
suspects: 2
status: hung
cause: rank 2; BUG; batch | batches | loader
fix: same number | as many | equal* | agree* | every rank | all ranks
never: join(); find_unused_parameters; /rank 3 (left|skipped|is wrong)/;
    /ranks? (0,4|0 and 4) (left|skipped|is wrong|are wrong)/
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader

from tests.zoo.common import TWIN, init

SP, SEQ, BATCH, SAMPLES = 2, 12, 4, 16


class Mesh:
    """Sequence parallel pairs (0,1) (2,3) (4,5), data parallel across them."""

    def __init__(self, rank: int, world: int) -> None:
        pairs = [list(range(i, i + SP)) for i in range(0, world, SP)]
        self.sp_groups = [dist.new_group(p) for p in pairs]
        self.dp_groups = [dist.new_group(list(range(i, world, SP))) for i in range(SP)]
        self.sp_rank, self.dp_rank = rank % SP, rank // SP
        self.sp, self.dp = self.sp_groups[self.dp_rank], self.dp_groups[self.sp_rank]
        self.lead, self.dp_size = self.dp_rank * SP, world // SP


def documents(dp_rank: int, epoch: int) -> list[tuple[torch.Tensor, int]]:
    g = torch.Generator().manual_seed(17 * epoch + dp_rank)
    lengths = torch.randint(20, 90, (SAMPLES,), generator=g)
    if (dp_rank, epoch) == (1, 1):
        lengths[5:8] += 200  # three long ones
    return [(torch.randn(SEQ, generator=g), int(n)) for n in lengths]


class SequenceParallelLoader:
    """The first of each pair reads, the other gets the batch from it."""

    def __init__(self, mesh: Mesh, max_length: int) -> None:
        self.mesh, self.max_length = mesh, max_length
        self.steps = SAMPLES // BATCH

    def read(self, epoch: int) -> DataLoader[torch.Tensor]:
        kept = [x for x, n in documents(self.mesh.dp_rank, epoch) if n <= self.max_length]
        return DataLoader(kept, batch_size=BATCH, drop_last=True)  # type: ignore[arg-type]

    def lead_iter(self, epoch: int) -> Iterator[torch.Tensor]:
        for batch in self.read(epoch):
            dist.broadcast(batch, src=self.mesh.lead, group=self.mesh.sp)  # BUG
            yield batch

    def follow_iter(self, epoch: int) -> Iterator[torch.Tensor]:
        for _ in range(self.steps):
            batch = torch.empty(BATCH, SEQ)
            dist.broadcast(batch, src=self.mesh.lead, group=self.mesh.sp)
            yield batch

    def epoch(self, epoch: int) -> Iterator[torch.Tensor]:
        iterate = self.lead_iter if self.mesh.sp_rank == 0 else self.follow_iter
        half = SEQ // SP
        for batch in iterate(epoch):
            yield batch[:, self.mesh.sp_rank * half :][:, :half]


def train(mesh: Mesh, epochs: int = 3) -> None:
    torch.manual_seed(0)
    model = nn.Linear(SEQ // SP, 1)
    loader = SequenceParallelLoader(mesh, max_length=500 if TWIN else 200)
    for epoch in range(epochs):
        total = torch.zeros(1)
        for x in loader.epoch(epoch):
            model.zero_grad()
            loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
            loss.backward()
            for p in model.parameters():
                dist.all_reduce(p.grad, group=mesh.dp)
                p.data -= 0.05 * p.grad / mesh.dp_size  # type: ignore[operator]
            total += loss.detach()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", float(total))


rank = init()
train(Mesh(rank, dist.get_world_size()))
dist.destroy_process_group()
