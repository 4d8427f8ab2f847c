"""A barrier over all ranks stands in what only the leaders of the rings run.

ranks: 4
expect: deadlock
suspects: none
status: hung
limit: 14
cause: barrier; BUG; LEADS; asks for the rank
fix: LEADS; group
never: left out one
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
rings = [dist.new_group([0, 1], timeout=TIMEOUT), dist.new_group([2, 3], timeout=TIMEOUT)]
leaders = dist.new_group([0, 2], timeout=TIMEOUT)
ring_attn_group, ring_attn_rank = rings[rank // 2], rank % 2
for _ in range(3):
    dist.all_reduce(torch.ones(2))
if ring_attn_rank == 0:  # LEADS
    dist.barrier(group=leaders if TWIN else None)  # BUG
    dist.broadcast(torch.ones(3), src=rank, group=ring_attn_group)
else:
    dist.broadcast(torch.ones(3), src=rank - 1, group=ring_attn_group)
