"""The same batch of collectives on every rank, coalesced.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from tests.zoo.common import init

rank = init()
for _ in range(3):
    with _coalescing_manager():
        for size in (4, 2):
            dist.all_reduce(torch.ones(size))
