"""Rank 1 never receives what rank 0 sends.

expect: p2p_unmatched
suspects: none
status: hung
cause: rank 0; rank 1; send; no recv; BUG
fix: recv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1)  # BUG
elif TWIN:
    dist.recv(torch.empty(4), src=0)
