"""Rank 1 dies in C++.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; abort*; DIES
fix: exit code | printed
"""

import os

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        os.abort()  # DIES
    dist.all_reduce(torch.ones(1))  # BUG
