"""Each rank trains in a thread, and its main thread joins that; rank 1 loads for ever.

The main threads of ranks 0 and 2 are in no collective, and neither is rank 1's: it is the thread
that counts.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; BUSY; all_reduce; ranks 0,2
fix: load* | rank 1
never: rank 0 is busy; ranks 0,2 are busy; /rank [02]: busy/
"""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train() -> None:
    for step in range(4):
        if (rank, step) == (1, 2) and not TWIN:
            time.sleep(60)  # BUSY
        dist.all_reduce(torch.ones(4))  # BUG


rank = init(timedelta(seconds=7))
thread = threading.Thread(target=train)
thread.start()
thread.join()
