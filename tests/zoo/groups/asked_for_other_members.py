"""A group made by its members alone; rank 1 asks for one without rank 2.

ranks: 3
expect: group_mismatch missing_call
suspects: 1
status: hung diverged
cause: rank 1; new_group; [0, 1, 2]; [0, 1]; BUG
fix: same ranks
never: called none; or pass use_local_synchronization
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
members = [0, 1] if rank == 1 and not TWIN else [0, 1, 2]
group = dist.new_group(members, timeout=TIMEOUT, use_local_synchronization=True)  # BUG
dist.all_reduce(torch.ones(1), group=group)
