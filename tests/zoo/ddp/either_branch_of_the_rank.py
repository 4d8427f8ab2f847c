"""Of two ranks one saves in its branch, the other waits in its own: with another collective.

Either branch may be the wrong one.

expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; barrier; SENT; BUG; FORK | rank == 0
fix: every rank
never: only rank 0 was under; model.join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(3, 3))
step = torch.zeros(1)
for batch in torch.ones(4, 2, 3):
    model(batch).sum().backward()
    if rank == 0:  # FORK
        dist.broadcast(step, 0)  # SENT
    elif TWIN:
        dist.broadcast(step, 0)
    else:
        dist.barrier()  # BUG
