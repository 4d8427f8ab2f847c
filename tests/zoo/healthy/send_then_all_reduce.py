"""A send, then a collective: nothing crosses.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for _ in range(3):
    if rank == 0:
        dist.send(torch.ones(4), dst=1)
    else:
        dist.recv(torch.empty(4), src=0)
    dist.all_reduce(torch.ones(1))
