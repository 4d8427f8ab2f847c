"""Three stages; the last has one step less, so that the others wait for it in vain.

ranks: 3
expect: p2p_unmatched
suspects: none
status: hung
cause: rank 2; rank 1; send; 4 recvs | received 4 | 4 times; finished | ended | loop; BUG
fix: same number of steps | loop | count
never: batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for _ in range(4 if rank == 2 and not TWIN else 5):
    if rank > 0:
        dist.recv(torch.empty(4), src=rank - 1)
    if rank < 2:
        dist.send(torch.ones(4), dst=rank + 1)  # BUG
        dist.recv(torch.empty(4), src=rank + 1)
    if rank > 0:
        dist.send(torch.ones(4), dst=rank - 1)
