"""Everyone has called, nothing completes: rank 1 stands still inside the collective.

ranks: 3
expect: stall
suspects: 1
status: hung
limit: 12
live: yes
cause: rank 1; stopped | stands still; inside; BUG
fix: process
"""

import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
dist.all_reduce(torch.ones(1))
if rank == 0:
    time.sleep(1)  # so that rank 1 stops before anything can complete
work = dist.all_reduce(torch.ones(1), async_op=True)  # BUG
if rank == 1 and not TWIN:
    os.kill(os.getpid(), signal.SIGSTOP)
assert work is not None
work.wait()
