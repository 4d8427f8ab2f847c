"""Rank 0 waits for rank 1, which waits in another group for rank 2, which has failed.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; ValueError; shard 2 is corrupt; BUG
fix: raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
front, back = dist.new_group([0, 1], timeout=TIMEOUT), dist.new_group([1, 2], timeout=TIMEOUT)
if rank == 2:
    if not TWIN:
        raise ValueError("shard 2 is corrupt")  # BUG
    dist.all_reduce(torch.ones(1), group=back)
if rank == 1:
    dist.all_reduce(torch.ones(1), group=back)
if rank in (0, 1):
    dist.all_reduce(torch.ones(1), group=front)
