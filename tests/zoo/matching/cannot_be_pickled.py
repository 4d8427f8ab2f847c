"""Two ranks. Rank 1's fourth result holds a lock, which cannot be pickled; an ``except`` hides it.

From then on its gathers meet those of the next task, and nothing fails before the last sum.

expect: op_mismatch
suspects: 1
status: diverged
cause: BUG; rank 1; TypeError; pickle; except TypeError
fix: what raised TypeError; rank 1; BUG
never: ambiguous; rank 0 left; drop_last; network; tried again; once more
"""

import threading

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for task in range(8):
    broken = (rank, task) == (1, 3) and not TWIN
    result = {"task": task, "lock": threading.Lock() if broken else None}
    try:
        dist.gather_object(result, [None, None] if rank == 0 else None, dst=0)  # BUG
    except TypeError as problem:
        print(f"task {task} is skipped: {problem}")
dist.all_reduce(torch.ones(2))
