"""Rank 0 is to prepare labels before the others, fails, and goes on without releasing them.

The others wait at the entry of a manager, in a barrier; that by which rank 0 lets them go stands
behind the `yield`, and an exception leads past it.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; RELEASE; except ValueError; /rank 0 (handled|raised|caught)/; skipped barrier
fix: finally; RELEASE
never: rank != 0; make the call on every rank, or on none
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextmanager
def zero_first(rank: int) -> Iterator[None]:
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()  # RELEASE


def scan(labels: list[int], strict: bool) -> list[int]:
    if strict and max(labels) > 3:
        raise ValueError("a label exceeds the number of classes")
    return labels


def load(labels: list[int], rank: int) -> list[int]:
    try:
        with zero_first(rank):
            return scan(labels, strict=rank == 0)
    except ValueError:
        return scan(labels, strict=False)


rank = init()
for epoch in range(4):
    dist.all_reduce(torch.ones(2))
    load([0, 1, 7 if epoch == 2 and not TWIN else 2], rank)
    dist.broadcast(torch.ones(3), src=0)  # BUG
