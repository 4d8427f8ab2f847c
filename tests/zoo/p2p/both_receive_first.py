"""Two neighbours receive before they send.

expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; recv; each other; BUG
fix: send before* | before its recv | batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
peer = 1 - rank
mine, theirs = torch.ones(4), torch.empty(4)
if rank == 0 and TWIN:
    dist.send(mine, dst=peer)
    dist.recv(theirs, src=peer)
else:
    dist.recv(theirs, src=peer)  # BUG
    dist.send(mine, dst=peer)
