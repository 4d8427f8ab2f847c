"""Rank 2 expects the weights from itself, the others from rank 0.

ranks: 3
expect: root_mismatch
suspects: 2
status: diverged
cause: rank 2; root* | src 2; rank 0 | src 0; BUG
fix: same src
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
weights = torch.ones(8)
source = 2 if rank == 2 and not TWIN else 0
dist.broadcast(weights, src=source)  # BUG
