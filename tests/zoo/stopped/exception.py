"""Rank 1 fails; the others wait for it.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; ValueError; batch 2 has no labels; BUG
fix: raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        raise ValueError("batch 2 has no labels")  # BUG
    dist.all_reduce(torch.ones(1))
