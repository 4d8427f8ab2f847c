"""A context makes a group that waits longer; who has nothing to do in it returns before it.

ranks: 3
expect: missing_call group_mismatch op_mismatch
suspects: 2
status: hung diverged
cause: rank 2; BUG; NOTHING
fix: every rank; NOTHING
never: loop ended; drop_last
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextmanager
def patient() -> Iterator[None]:
    group = dist.new_group(timeout=timedelta(seconds=30))  # BUG
    yield
    dist.barrier(group=group)


def compress(share: list[torch.Tensor]) -> int:
    if not share and not TWIN:  # NOTHING
        return 0
    with patient():
        for weight in share:
            weight.round_()
    return len(share)


rank = init()
for layer in range(3):
    weights = [torch.ones(4) for _ in range(2 if layer == 2 else 6)]
    compress(weights[rank :: dist.get_world_size()])
    for n, weight in enumerate(weights):
        dist.broadcast(weight, src=n % dist.get_world_size())
