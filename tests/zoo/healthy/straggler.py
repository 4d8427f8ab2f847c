"""Rank 1 needs far longer than a stall may last, and arrives.

ranks: 3
expect: nothing
status: aligned
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init(timedelta(seconds=20))
for step in range(4):
    if (rank, step) == (1, 2):
        time.sleep(4)
    dist.all_reduce(torch.ones(1))
