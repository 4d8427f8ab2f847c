"""Rank 0 sends to rank 2 what rank 1 waits for.

ranks: 3
expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; rank 2; send*; recv*; BUG
fix: peer
never: network; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1 if TWIN else 2)  # BUG
elif rank == 1:
    dist.recv(torch.empty(4), src=0)  # BUG
