"""Rank 1 is in a C function that does not let go of the GIL: no thread of it runs any more.

ranks: 3
expect: missing_call
suspects: 1
status: hung
limit: 10
live: yes
cause: rank 1; no sign of life | stands still; STILL
fix: process
"""

import ctypes
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init(timedelta(seconds=7))
for step in range(5):
    if (rank, step) == (1, 2) and not TWIN:
        ctypes.PyDLL(None).sleep(60)  # STILL
    dist.all_reduce(torch.ones(1))  # BUG
