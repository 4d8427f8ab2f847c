"""Functional collectives: ranks 0 and 2 wait in ``wait_tensor`` for rank 1, which has finished.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; all_reduce; wait | waited; finished | ended; BUG
fix: every rank | all ranks
never: ranks 0,2 are busy; /rank [02]: (busy|running)/; waited 0 ms; 0 ms
"""

from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
group = dist.group.WORLD
assert group is not None
steps = 3 if rank == 1 and not TWIN else 4
for _ in range(steps):
    total = funcol.all_reduce(torch.ones(4), "sum", group)  # BUG
    print(total.sum())
