"""Rank 0 reduces its metric once more, for the log.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; all_reduce; BUG; only rank 0 | rank 0 alone | extra | rank == 0
fix: every rank | all ranks
never: left the loop; loop ended
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
metric = torch.ones(1)
for step in range(5):
    dist.broadcast(metric, src=0)
    if rank == 0 and step == 3 and not TWIN:
        dist.all_reduce(metric)  # BUG
