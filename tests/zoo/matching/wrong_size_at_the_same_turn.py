"""Root and others go through the same tensors, in loops of their own; rank 1 made one too large.

The `continue` leads all past the same turn.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG
fix: one size
never: may have led; decide together
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SIZES = {"bias": 2, "frozen": 3, "weight": 4, "head": 5}


def send() -> None:
    for name, size in SIZES.items():
        if name == "frozen":
            continue
        dist.broadcast(torch.ones(size), src=0)


def receive(padded: int) -> None:
    for name, size in SIZES.items():
        if name == "frozen":
            continue
        dist.broadcast(torch.ones(size + padded), src=0)  # BUG


rank = init()
send() if rank == 0 else receive(0 if TWIN else 1)
dist.barrier()
