"""A rank leaves its loop between two boundaries: it entered no_sync() less often, but rightly.

ranks: 3
expect: missing_call op_mismatch role_mismatch shape_mismatch
suspects: 1
status: diverged hung
cause: rank 1; BREAK; break
fix: BREAK; break
never: same number of micro-batches; by the step number
"""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 17):
    if rank == 1 and step == 15 and not TWIN:  # BREAK
        break
    boundary = step % 4 == 0
    with contextlib.nullcontext() if boundary else model.no_sync():
        model(torch.ones(2, 4)).sum().backward()  # BUG
    if boundary:
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()  # LATER
