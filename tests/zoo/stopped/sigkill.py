"""Rank 1 is killed, as the kernel does when memory runs out.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; died | killed; BUG
fix: exit code
"""

import os
import signal

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))  # BUG
