"""Rank 0 sends its parts one after the other, but none that is empty; rank 1 awaits them all.

ranks: 2
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 0; One more send; the logs do not show which
fix: decide
never: In every iteration before
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
part = torch.empty(4)
for rows in [3, 0, 2, 1]:
    if rank == 0:
        if rows == 0 and not TWIN:
            continue
        dist.send(torch.full((4,), float(rows)), 1)
    else:
        dist.recv(part, 0)  # BUG
dist.barrier()
dist.destroy_process_group()
