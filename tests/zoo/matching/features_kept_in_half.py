"""Rank 1 finds features of an earlier run on its disk, which were kept in half precision.

Nothing in the program enters autocast.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1; float16; BUG; loaded | stored | file system
fix: float(); loaded
never: autocast
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def features(folder: Path) -> torch.Tensor:
    kept = folder / "train.npy"
    if kept.exists():
        return torch.from_numpy(np.load(kept))
    return torch.ones(6, 4)


rank = init()
for _ in range(3):
    dist.all_reduce(torch.ones(2))
with tempfile.TemporaryDirectory() as disk:
    if rank == 1:
        dtype = np.float32 if TWIN else np.float16
        np.save(Path(disk) / "train.npy", np.ones((6, 4), dtype))
    own = features(Path(disk))
parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
dist.all_gather(parts, own)  # BUG
