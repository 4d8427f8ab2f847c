"""Rank 1 reads a file that never ends; the others wait in a barrier, and somebody presses Ctrl-C.

ranks: 3
expect: missing_call
suspects: 1
status: hung
interrupt_after: 9
limit: 16
cause: rank 1; barrier; ranks 0,2; BUSY; interrupt* | Ctrl-C | SIGINT | KeyboardInterrupt
fix: rank 1
never: ranks 0,2 are busy; /rank [02]: busy/; Fix what raised
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
for step in range(4):
    dist.all_reduce(torch.ones(4))
    if (rank, step) == (1, 2) and not TWIN:
        while True:
            time.sleep(0.01)  # BUSY
    dist.barrier()  # BUG
