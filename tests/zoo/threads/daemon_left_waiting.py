"""A thread of each rank meets the others in a barrier; rank 1 starts none. The job ends all right.

The main threads have finished, and the barrier has waited for rank 1 since long before.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; barrier; BUG; thread*
fix: every rank | all ranks
never: waited 0 ms; rank 0 finished without; rank 2 finished without
"""

import threading
import time

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def watch() -> None:
    dist.barrier(group=watchers)  # BUG


rank = init()
watchers = dist.new_group(timeout=TIMEOUT)
if rank != 1 or TWIN:
    threading.Thread(target=watch, daemon=not TWIN).start()
for _ in range(4):
    dist.all_reduce(torch.ones(4))
    time.sleep(0.4)
