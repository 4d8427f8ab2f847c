"""Only a ``with collectrace.trace():`` block is recorded; rank 1's exception leaves it.

ranks: 3
expect: missing_call
suspects: 1
status: hung
untraced: 0 1 2
cause: rank 1; ValueError; batch 2 has no labels; BUG
fix: raised
"""

import torch
import torch.distributed as dist

import collectrace
from tests.zoo.common import TWIN, init

rank = init()
with collectrace.trace():
    for step in range(5):
        if (rank, step) == (1, 2) and not TWIN:
            raise ValueError("batch 2 has no labels")  # BUG
        dist.all_reduce(torch.ones(1))
