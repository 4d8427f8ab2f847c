"""Rank 1 waits for a lock that it holds already.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; LOCK
fix: lock
"""

import threading
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=7))
lock = threading.Lock()
for step in range(5):
    with lock:
        if (rank, step) == (1, 2) and not TWIN:
            lock.acquire()  # LOCK
        dist.all_reduce(torch.ones(1))  # BUG
