"""Rank 2 offers an output that is no multiple of its input.

ranks: 3
expect: shape_mismatch missing_call
suspects: 2
status: diverged hung
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
slots = world + 1 if rank == 2 and not TWIN else world
dist.all_gather_single(torch.empty(slots * 4), torch.ones(4))  # BUG
