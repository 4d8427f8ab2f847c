"""Rank 2 offers an output that is no multiple of its input.

ranks: 3
expect: shape_mismatch missing_call
suspects: 2
status: diverged hung
cause: rank 2; invalid tensor size | expected (4), got (6); refused | raised; BUG
fix: raised | output
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
slots = world + 1 if rank == 2 and not TWIN else world
dist.all_gather_single(torch.empty(slots * 4), torch.ones(4))  # BUG
