"""Rank 1 reduces to itself, the others to rank 0.

ranks: 3
expect: root_mismatch
suspects: 1
status: diverged
cause: rank 1; root* | dst 1; rank 0 | dst 0; BUG
fix: same dst
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
total = torch.ones(8)
dist.reduce(total, dst=1 if rank == 1 and not TWIN else 0)  # BUG
