"""Rank 0 has not come to the manager yet: it calls something more before it.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; NEW
fix: every rank
never: went past; exception; raised in the body; finally
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextmanager
def main_first(rank: int) -> Iterator[None]:
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def version(is_new: bool) -> int:
    found = torch.ones(1)
    if is_new:  # NEW
        dist.broadcast(found, src=0)  # BUG
    return int(found)


def is_new(rank: int) -> bool:
    return rank == 0 and not TWIN


rank = init()
dist.all_reduce(torch.ones(4))
number = version(is_new(rank))
with main_first(rank):
    data = list(range(number))
for _ in data:
    dist.all_reduce(torch.ones(4))
