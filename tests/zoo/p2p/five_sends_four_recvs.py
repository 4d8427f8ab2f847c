"""Rank 0 sends five microbatches, rank 1 receives four.

expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; 4 recvs | 4 times | received 4; 5 | 5th | fifth; BUG
fix: one recv | count | loop
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
received = 5 if TWIN else 4
if rank == 0:
    for _ in range(5):
        dist.send(torch.ones(4), dst=1)  # BUG
else:
    for _ in range(received):
        dist.recv(torch.empty(4), src=0)
