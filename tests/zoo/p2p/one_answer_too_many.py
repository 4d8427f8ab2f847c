"""A server gives out jobs in any order, and waits for one request more than are made.

Workers ask as often as they like: that rank 3 asked less than the other two says nothing.

ranks: 4
expect: deadlock p2p_unmatched missing_call
status: hung
cause: rank 0; asked for 17; BUG
fix: count
never: zeros; network; rank 3 went on; alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
job = torch.zeros(1)
asks = [0, 6, 6, 4]
if rank == 0:
    for _ in range(sum(asks) + (not TWIN)):
        dist.send(job, dst=dist.recv(job))  # BUG
else:
    for _ in range(asks[rank]):
        dist.send(job, dst=0)
        dist.recv(job, src=0)
dist.barrier()
