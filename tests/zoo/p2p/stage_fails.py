"""The last of four stages fails: the one before it cannot send, the first gets nothing back.

ranks: 4
expect: p2p_unmatched
suspects: 3
status: hung
cause: rank 3; ValueError; the loss is not finite; BUG
fix: raised
never: microbatch*; batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
activation = torch.ones(2)
for step in range(3):
    if rank > 0:
        dist.recv(activation, src=rank - 1)
    if (rank, step) == (3, 1) and not TWIN:
        raise ValueError("the loss is not finite")  # BUG
    dist.send(activation, dst=(rank + 1) % 4)
    if rank == 0:
        dist.recv(activation, src=3)
