"""Rank 1 reads a file that never ends; the others wait, and the scheduler ends them all (SIGTERM).

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 40
cause: rank 1; all_reduce; ranks 0,2; BUSY
fix: rank 1
never: ranks 0,2 are busy; /rank [02]: busy/; Fix what raised
"""

import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def scheduler() -> None:
    time.sleep(9)
    os.kill(os.getpid(), signal.SIGTERM)


rank = init(timedelta(seconds=60))
if not TWIN:
    threading.Thread(target=scheduler, daemon=True).start()
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        while True:
            time.sleep(0.01)  # BUSY
    dist.all_reduce(torch.ones(4))  # BUG
