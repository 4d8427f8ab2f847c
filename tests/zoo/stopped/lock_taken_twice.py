"""Rank 0 writes a checkpoint under a lock, and what it calls there takes the same lock again.

ranks: 2
expect: missing_call
suspects: 0
status: hung
cause: rank 0; a lock that it holds itself; AGAIN
fix: RLock
never: which thread; py-spy; exit code
"""

import threading

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

lock = threading.RLock() if TWIN else threading.Lock()


def checkpoint() -> None:
    with lock:
        save_metrics()


def save_metrics() -> None:
    with lock:  # AGAIN
        pass


rank = init()
for step in range(6):
    dist.all_reduce(torch.ones(2))
    if rank == 0 and step == 3:
        checkpoint()
    dist.barrier()  # BUG
