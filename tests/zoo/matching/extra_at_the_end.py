"""Rank 1 reduces once more when the others are done.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; all_reduce; BUG; one call more | extra | only rank 1 | rank 1 alone
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
metric = torch.ones(1)
for _ in range(5):
    dist.all_reduce(metric)
if rank == 1 and not TWIN:
    dist.all_reduce(metric)  # BUG
