"""Each rank trains in a thread; that of rank 1 fails, and its main thread ends as if all were well.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; ValueError; batch 2 has no labels; BUG
fix: raised
never: rank 1 finished
"""

import threading

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def train() -> None:
    for step in range(5):
        if (rank, step) == (1, 2) and not TWIN:
            raise ValueError("batch 2 has no labels")  # BUG
        dist.all_reduce(torch.ones(1))


rank = init()
thread = threading.Thread(target=train)
thread.start()
thread.join()
