"""Rank 1 expects more than rank 0 sends.

expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; float32[4]; float32[6]; BUG
fix: size
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1)
else:
    dist.recv(torch.empty(4 if TWIN else 6), src=0)  # BUG
