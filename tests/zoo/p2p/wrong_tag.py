"""The sender says tag 7, the receiver waits for tag 8.

expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; tag 7; tag 8; BUG
fix: tag
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1, tag=7)
else:
    dist.recv(torch.empty(4), src=0, tag=7 if TWIN else 8)  # BUG
