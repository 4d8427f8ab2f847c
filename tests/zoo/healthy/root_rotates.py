"""Every rank is the root once.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for root in range(3):
    dist.broadcast(torch.ones(4), src=root)
    dist.reduce(torch.ones(4), dst=root)
