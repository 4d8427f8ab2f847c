"""All ranks but one reduce their metric.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; all_reduce; BUG; branch | rank != 2
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
metric = torch.ones(4)
dist.all_reduce(metric)
if rank != 2 or TWIN:
    dist.all_reduce(metric)  # BUG
