"""Rank 1 fails; a thread of its loader keeps it alive until the launcher has ended the others.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; ValueError; batch 2 has no labels; BUG
fix: raised
"""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def launcher(others: list[int]) -> None:
    time.sleep(1)
    for pid in others:
        os.kill(pid, signal.SIGTERM)


rank = init()
pids: list[int] = [0, 0, 0]
dist.all_gather_object(pids, os.getpid())
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        threading.Thread(target=launcher, args=([pids[0], pids[2]],)).start()
        raise ValueError("batch 2 has no labels")  # BUG
    dist.all_reduce(torch.ones(1))
