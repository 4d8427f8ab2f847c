"""Gradients are accumulated until a rank has seen enough samples: the ranks count different ones.

Their boundaries slip, unnoticed, until one has no more of them.

expect: missing_call op_mismatch role_mismatch shape_mismatch
suspects: none
status: diverged hung
cause: no_sync(); BUG; rank 1; rank 0; `boundary` decides
fix: step number; same number of micro-batches
never: find_unused_parameters; took no part in the loss
"""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = 0
for _ in range(12):
    batch = torch.ones(2 if rank == 0 or TWIN else 3, 4)
    seen += len(batch)
    boundary = seen >= 6
    with contextlib.nullcontext() if boundary else model.no_sync():
        model(batch).sum().backward()  # BUG
    if boundary:
        optimizer.step()
        optimizer.zero_grad()
        seen = 0
dist.barrier()
