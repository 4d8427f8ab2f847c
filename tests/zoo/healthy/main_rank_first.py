"""Rank 0 prepares the data first, the others after it: one barrier a block, from two lines.

The checkpoint is written the same way, and left by two returns.

ranks: 4
expect: nothing
status: aligned
"""

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init(timedelta(seconds=60))


@contextlib.contextmanager
def main_rank_first() -> Iterator[None]:
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def tokenize(samples: int) -> torch.Tensor:
    time.sleep(0.4 if rank == 0 else 0.01)
    return torch.ones(samples, 5)


def load() -> tuple[torch.Tensor, torch.Tensor]:
    with main_rank_first():
        train = tokenize(24)
    with main_rank_first():
        valid = tokenize(8)
    return train, valid


class Checkpoint:
    best = float("inf")

    def save(self, loss: float) -> None:
        if loss >= self.best:
            return
        self.best = loss
        if rank == 0:
            time.sleep(0.2)  # the write
            dist.barrier()
            return
        dist.barrier()


train, valid = load()
model, checkpoint = DistributedDataParallel(torch.nn.Linear(5, 1)), Checkpoint()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for x in train[rank::4].chunk(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        loss = model.module(valid[rank::4]).square().mean()
    dist.all_reduce(loss)
    checkpoint.save(loss.item())
