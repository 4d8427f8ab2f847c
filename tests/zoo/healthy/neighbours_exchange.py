"""Neighbours exchange in a batch, both sends first.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
left, right = (rank - 1) % 3, (rank + 1) % 3
for _ in range(3):
    exchange = [
        dist.P2POp(dist.isend, torch.ones(4), right),
        dist.P2POp(dist.isend, torch.ones(4), left),
        dist.P2POp(dist.irecv, torch.empty(4), left),
        dist.P2POp(dist.irecv, torch.empty(4), right),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
