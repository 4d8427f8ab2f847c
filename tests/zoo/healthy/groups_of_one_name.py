"""Two disjoint groups of one name and description, each with traffic of its own.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, init

rank = init()
half = [0, 1] if rank < 2 else [2, 3]
group = dist.new_group(
    half, timeout=TIMEOUT, use_local_synchronization=True, group_desc="data parallel"
)
for _ in range(3 + half[0]):
    dist.all_reduce(torch.ones(1 + half[0]), group=group)
dist.barrier()
