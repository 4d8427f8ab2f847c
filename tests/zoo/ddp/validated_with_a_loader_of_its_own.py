"""Rank 0 validates through DDP, with a loader that has more batches than that of the training.

ranks: 3
expect: missing_call op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; forward; if rank == 0
fix: module | every rank
never: neven inputs; drop_last; same number of batches
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init


def correct(model: nn.Module, loader: DataLoader[tuple[torch.Tensor, ...]]) -> int:
    model.eval()
    found = 0
    with torch.no_grad():
        for images, labels in loader:
            found += int((model(images).argmax(1) == labels).sum())  # BUG
    model.train()
    return found


rank = init()
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
model = DistributedDataParallel(body)
data = TensorDataset(torch.randn(40, 6), torch.randint(3, (40,)))
train = DataLoader(data, batch_size=10)
valid = DataLoader(data, batch_size=8)
for _ in range(3):
    for images, labels in train:
        nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
    if rank == 0:
        correct(body if TWIN else model, valid)
dist.barrier()
dist.destroy_process_group()
