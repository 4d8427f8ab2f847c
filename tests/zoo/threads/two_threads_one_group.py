"""A thread beats on the group that training uses. No order holds between the two: on rank 1 the
beat comes first, on the others the gradients do.

Two of three ranks agree, and still nobody is wrong but the program: the threads share a group.

ranks: 3
expect: op_mismatch
suspects: none
status: diverged
cause: thread*; same group | one group | share*; BUG
fix: group of its own | own group | new_group | one thread
never: left out; one extra; if rank == 0; logs do not show
"""

import threading
import time

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def beat() -> None:
    time.sleep(0 if first else 0.7)
    dist.broadcast(torch.ones(4), src=0, group=group)  # BUG


rank = init()
group = dist.new_group(timeout=TIMEOUT) if TWIN else dist.group.WORLD
first = rank == 1
thread = threading.Thread(target=beat)
thread.start()
time.sleep(0.7 if first else 0)
dist.all_reduce(torch.ones(2))  # BUG
thread.join()
