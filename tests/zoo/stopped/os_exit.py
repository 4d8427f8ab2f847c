"""Rank 1 leaves by os._exit, which records no end.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; died | ended abruptly; BUG
fix: exit code
"""

import os

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        os._exit(3)
    dist.all_reduce(torch.ones(1))  # BUG
