"""The others catch their timeout and go on without rank 1, which comes late and waits for nobody.

ranks: 3
expect: missing_call stall op_mismatch
suspects: 1
status: hung diverged
limit: 20
cause: rank 1; late | after; BUSY; BUG
fix: timeout | rank 1
never: network; none is known to have stopped; agree again
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        time.sleep(TIMEOUT.total_seconds() + 4)  # BUSY
    try:
        dist.all_reduce(torch.ones(4))  # BUG
    except RuntimeError:
        print("this step is lost")
        break
