"""Rank 1 reduces once more when the others are done.

ranks: 3
expect: missing_call
suspects: 1
status: hung
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
