"""Rank 2's 31st call is refused, for its output is too small; an ``except`` swallows that.

ranks: 3
expect: op_mismatch missing_call shape_mismatch
suspects: 2
status: diverged hung
cause: rank 2; refused | never reached | raised; invalid tensor size; 31 | 31st; BUG
fix: raised | output | except*
never: network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(20):
    slots = 5 if (rank, step) == (2, 15) and not TWIN else 12
    try:
        dist.all_gather_single(torch.empty(slots), torch.ones(4))  # BUG
    except RuntimeError:
        print("this round is not gathered")
    dist.all_reduce(torch.ones(1))
