"""Messages overtake each other by their tags, and one receiver takes whoever comes.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
if rank == 0:
    works = [dist.isend(torch.ones(4), dst=1, tag=tag) for tag in (1, 2)]
    for work in works:
        assert work is not None
        work.wait()
elif rank == 1:
    for tag in (2, 1):
        dist.recv(torch.empty(4), src=0, tag=tag)
dist.barrier()
if rank == 0:
    for _ in range(2):
        dist.recv(torch.empty(2), tag=3)
else:
    dist.send(torch.ones(2), dst=0, tag=3)
