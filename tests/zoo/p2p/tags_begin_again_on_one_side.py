"""Parcels go round a ring under tags that begin again after ten on the side of the senders only.

ranks: 3
expect: p2p_unmatched
suspects: none
status: hung
cause: BUG; tag 100; tag 110; 2 more alike
fix: same tag
never: every rank must go through
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

FIRST, TAGS = 100, 10

rank, world = init(), dist.get_world_size()
for parcel in range(13):
    begun = dist.isend(torch.ones(2), (rank + 1) % world, tag=FIRST + parcel % TAGS)
    theirs = parcel % TAGS if TWIN else parcel
    dist.recv(torch.empty(2), (rank - 1) % world, tag=FIRST + theirs)  # BUG
    assert begun is not None
    begun.wait()
dist.destroy_process_group()
