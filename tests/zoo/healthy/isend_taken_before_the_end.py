"""Messages that nobody waits for, and that are taken all the same: a barrier stands before the end.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
kept = []
for n in range(4):
    if rank == 0:
        values = torch.full((4096,), float(n))
        kept.append((values, dist.isend(values, dst=1)))
    else:
        dist.recv(torch.empty(4096), src=0)
dist.barrier()
dist.destroy_process_group()
