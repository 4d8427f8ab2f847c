"""Rank 0 is to build the cache before the others, who are held in a barrier; and counts it there.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; NEW; HELD; at its entry; in that body
fix: body; after it
never: left out; loop ended; ambiguous; rank 0 only
"""

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextlib.contextmanager
def zero_first() -> Iterator[None]:
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def count(cache: dict[str, int]) -> int:
    total = torch.tensor([len(cache)])
    dist.all_reduce(total)  # BUG
    return int(total)


def dataset(name: str, is_new: bool) -> int:
    with zero_first():  # HELD
        cache = {name: rank}
        if is_new and not TWIN:  # NEW
            return count(cache)
    return count(cache)


rank = init()
for n, name in enumerate(("train", "validation", "test")):
    dataset(name, is_new=n == 2)
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
