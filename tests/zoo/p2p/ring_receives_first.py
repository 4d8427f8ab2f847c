"""Everyone in a ring of three waits for the left neighbour before sending to the right one.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: circle | each other; recv; BUG
fix: send before* | before its recv | batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
left, right = (rank - 1) % 3, (rank + 1) % 3
mine, theirs = torch.ones(4), torch.empty(4)
if rank == 0 and TWIN:
    dist.send(mine, dst=right)
    dist.recv(theirs, src=left)
else:
    dist.recv(theirs, src=left)  # BUG
    dist.send(mine, dst=right)
