"""Rank 0 holds the lock of a file while it waits in a collective for the others, which want it.

ranks: 3
expect: deadlock
suspects:
status: hung
limit: 10
cause: file lock; all_reduce; WAITS
fix: lock
"""

import fcntl
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
with Path(os.environ["COLLECTRACE_LOG_DIR"]).with_name("a.lock").open("w") as lock:
    for step in range(4):
        if rank == step % 2:
            fcntl.flock(lock, fcntl.LOCK_EX)
        dist.barrier()
        if rank == step % 2 and (step != 2 or TWIN):
            fcntl.flock(lock, fcntl.LOCK_UN)
        if rank != step % 2:
            fcntl.flock(lock, fcntl.LOCK_EX)  # WAITS
            fcntl.flock(lock, fcntl.LOCK_UN)
        dist.all_reduce(torch.ones(1))  # BUG
