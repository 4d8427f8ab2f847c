"""Rank 1 stands still before it calls what the others wait in.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
live: yes
cause: rank 1; stopped | stands still; BUG
fix: process
"""

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(1))  # BUG
