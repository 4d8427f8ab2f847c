"""An isend before a collective, its recv behind it: nobody blocks in between.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
if rank == 0:
    work = dist.isend(torch.ones(4), dst=1)
    dist.all_reduce(torch.ones(1))
    assert work is not None
    work.wait()
else:
    dist.all_reduce(torch.ones(1))
    dist.recv(torch.empty(4), src=0)
