"""Rank 0 sends, then waits in a barrier; rank 1 waits in the barrier, then receives.

expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; send; barrier; BUG
fix: before the collective | before the barrier
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1)  # BUG
    dist.barrier()
elif TWIN:
    dist.recv(torch.empty(4), src=0)
    dist.barrier()
else:
    dist.barrier()
    dist.recv(torch.empty(4), src=0)
