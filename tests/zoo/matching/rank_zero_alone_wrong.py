"""Rank 0 alone reduces what three others gather: the odd one out is the reference of many tools.

ranks: 4
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; all_reduce; all_gather*; BUG; rank == 0 | only rank 0 | rank 0 alone
fix: every rank | all ranks
never: up to here the ranks agree; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
mine = torch.ones(4)
if rank == 0 and not TWIN:
    dist.all_reduce(mine)  # BUG
else:
    dist.all_gather_single(torch.empty(16), mine)
