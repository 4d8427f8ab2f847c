"""Rank 1 never comes out of a loop of its own.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; busy | loop; BUSY
fix: loop
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=7))
for step in range(5):
    pending = 1 if (rank, step) == (1, 2) and not TWIN else 0
    while pending:  # BUSY
        pending += 1  # BUSY
    dist.all_reduce(torch.ones(1))  # BUG
