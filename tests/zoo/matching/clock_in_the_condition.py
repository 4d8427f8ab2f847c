"""Rank 2 saves by its own clock: it alone finds the interval over.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; barrier; BUG; time | clock
fix: every rank | all ranks | broadcast
never: left the loop; loop ended; rank == 0
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
started = time.monotonic() - (100 if rank == 2 else 0)
for step in range(5):
    dist.all_reduce(torch.ones(4))
    if step == (2 if TWIN else 3) and (TWIN or time.monotonic() - started > 100):
        dist.barrier()  # BUG
