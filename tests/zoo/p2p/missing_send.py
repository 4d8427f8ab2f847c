"""Rank 1 waits for a message that rank 0 never sends.

expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; recv; no send; BUG
fix: send
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 1:
    dist.recv(torch.empty(4), src=0)  # BUG
elif TWIN:
    dist.send(torch.ones(4), dst=1)
