"""A server without an optimizer says itself where a step begins; in step 5 rank 0 logs alone.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; barrier; extra; `if request == 5 and (rank == 0 or TWIN):`
fix: barrier; step_of_server.py:27; BUG; every rank | all ranks
never: left the loop; loop ended
"""

from collections.abc import Callable

import torch
import torch.distributed as dist

import collectrace
from tests.zoo.common import TWIN, init

step: Callable[[], object] = getattr(collectrace, "step", bool)
rank = init()
for request in range(1, 9):
    step()
    dist.broadcast(torch.ones(4), src=0)
    for _ in range(request % 3 + 1):
        dist.all_reduce(torch.ones(4))
    if request == 5 and (rank == 0 or TWIN):
        dist.barrier()  # BUG
