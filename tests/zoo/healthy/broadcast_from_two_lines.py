"""Rank 0 sends from one line, the others receive in another; so for gather and scatter.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
weights = torch.ones(4)
slots = [torch.empty(4) for _ in range(3)]
if rank == 0:
    dist.broadcast(weights, src=0)
    dist.gather(weights, slots, dst=0)
    dist.scatter(weights, slots, src=0)
else:
    dist.broadcast(weights, src=0)
    dist.gather(weights, dst=0)
    dist.scatter(weights, src=0)
