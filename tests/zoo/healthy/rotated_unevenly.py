"""Logs too long for their limit, and some ranks write more than others: less of theirs is left.

ranks: 3
expect: nothing
status: aligned
env: COLLECTRACE_MAX_BYTES=300000 TORCH_FR_BUFFER_SIZE=1000
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, init

rank = init()
pair = dist.new_group([0, 1], timeout=TIMEOUT)
total = torch.ones(1)
for step in range(2000):
    if rank < 2 and step % 2:
        dist.all_reduce(total, op=dist.ReduceOp.MAX, group=pair)
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
