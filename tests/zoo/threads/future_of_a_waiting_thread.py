"""A thread of a pool saves in a group of its own; rank 1 does not submit it, and goes on.

The main threads of ranks 0 and 2 wait for their pool, which waits for rank 1, which waits for them.

ranks: 3
expect: deadlock missing_call
suspects: 1
status: hung
cause: rank 1; barrier; BUG; thread* | result() | future | pool
fix: every rank | all ranks
never: rank 0 is busy; ranks 0,2 are busy; /rank [02]: busy/; each is right by itself
"""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def save() -> None:
    dist.barrier(group=savers)  # BUG


rank = init()
savers = dist.new_group(timeout=TIMEOUT)
with ThreadPoolExecutor(1) as pool:
    for step in range(3):
        dist.all_reduce(torch.ones(4))
        disk_is_full = (rank, step) == (1, 1)
        if not disk_is_full or TWIN:
            pool.submit(save).result()
