"""Gradients are accumulated over shards of different lengths; each rank's last batch is reduced.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1 had more inputs; BUG; DataLoader
fix: same number of batches | drop_last
never: skipped DDP; no_sync() in other; network
"""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

ACCUMULATED = 3
BATCHES = [5, 8, 5]
"""Of each rank: its documents are packed, so no two shards have as many."""


def train_epoch(
    model: DistributedDataParallel, loader: DataLoader[tuple[torch.Tensor, ...]]
) -> None:
    for number, (batch,) in enumerate(loader, 1):
        is_last = number % ACCUMULATED == 0 or number == len(loader)
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(batch).square().mean().backward()  # BUG
        if is_last:
            model.zero_grad()


rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 3))
rows = torch.ones(2 * (5 if TWIN else BATCHES[rank]), 4)
train_epoch(model, DataLoader(TensorDataset(rows), batch_size=2))
dist.all_reduce(torch.tensor([len(rows)]), op=dist.ReduceOp.MAX)
dist.destroy_process_group()
