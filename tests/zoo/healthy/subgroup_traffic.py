"""Ranks 0 and 1 talk more than the others, in a group of their own.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, init

rank = init()
pair = dist.new_group([0, 1], timeout=TIMEOUT)
for step in range(4):
    if rank < 2:
        for _ in range(step):
            dist.all_reduce(torch.ones(2), group=pair)
    dist.all_reduce(torch.ones(1))
