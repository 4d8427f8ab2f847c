"""Rank 1 reduces on a second group of the same ranks: everybody waits in a group of their own.

ranks: 3
expect: deadlock
suspects: 1
status: hung
cause: rank 1; group 1; group 2; BUG
fix: same group
never: each is right by itself
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
data, metrics = (
    dist.new_group([0, 1, 2], timeout=TIMEOUT),
    dist.new_group([0, 1, 2], timeout=TIMEOUT),
)
group = metrics if rank == 1 and not TWIN else data
dist.all_reduce(torch.ones(1), group=group)  # BUG
