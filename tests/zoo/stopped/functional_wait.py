"""Functional collectives: ranks 0 and 2 wait in ``wait_tensor`` for rank 1, which loads for ever.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; all_reduce; ranks 0,2 wait; BUSY
fix: rank 1
never: ranks 0,2 are busy; /rank [02]: (busy|running)/; /ranks? [02][^.]* in no /; waited 0 ms; 0 ms
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=60))
group = dist.group.WORLD
assert group is not None
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        time.sleep(60)  # BUSY
    total = funcol.all_reduce(torch.ones(4), "sum", group)  # BUG
    print(total.sum())
