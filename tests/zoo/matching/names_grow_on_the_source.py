"""Rank 0 broadcasts the names of its shards; a new one has come, and rank 1 has no room for it.

expect: shape_mismatch
suspects: none
status: diverged hung
cause: rank 0; rank 1; list; 4; 3; first other one; BUG
fix: as many entries; number first | only object
never: pad; drop_last; rank 0 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
shards = ["a.bin", "b.bin", "c.bin"]
seen = torch.zeros(1)
for step in range(6):
    if step == 5 and not TWIN:
        known = [*shards, "d.bin"] if rank == 0 else [None] * len(shards)
    else:
        known = list(shards) if rank == 0 else [None] * len(shards)
    dist.broadcast_object_list(known, src=0)  # BUG
    seen += len(known)
    dist.all_reduce(seen)
