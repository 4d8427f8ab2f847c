"""Rank 2 builds a wider model; the constructor of rank 2 finds out and raises.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: rank 2; [1, 8]; models | sizes; BUG
fix: same model
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
width = 8 if rank == 2 and not TWIN else 4
model = DistributedDataParallel(torch.nn.Linear(width, 1))  # BUG
for _ in range(2):
    model(torch.ones(1, width)).sum().backward()
