"""Rank 1 prepares its data for so long that the others give up; then it comes to an empty place.

ranks: 3
expect: missing_call stall
suspects: 1
status: hung
limit: 20
cause: rank 1; late | after; BUSY; BUG
fix: timeout | rank 1
never: network; none is known to have stopped
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        time.sleep(TIMEOUT.total_seconds() + 4)  # BUSY
    dist.all_reduce(torch.ones(4))  # BUG
