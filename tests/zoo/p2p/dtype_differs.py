"""float32 is sent, int32 is awaited: the bytes fit, the numbers are garbage.

expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; float32; int32; BUG
fix: dtype
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
if rank == 0:
    dist.send(torch.ones(4), dst=1)
else:
    dist.recv(torch.empty(4, dtype=torch.float32 if TWIN else torch.int32), src=0)  # BUG
