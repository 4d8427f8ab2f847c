"""A training that sets DDP's flag itself, by the tokens of its rank: the boundaries slip.

expect: missing_call op_mismatch role_mismatch shape_mismatch
suspects: none
status: diverged hung
cause: no_sync(); BUG; rank 1; rank 0
fix: step number; same number of micro-batches
never: find_unused_parameters; took no part in the loss
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = 0
for _ in range(14):
    length = 16 if rank == 0 or TWIN else 14
    tokens += length
    model.require_backward_grad_sync = tokens >= 32
    loss = model(torch.randn(length, 4)).square().mean()
    loss.backward()  # BUG
    if model.require_backward_grad_sync:
        optimizer.step()
        optimizer.zero_grad()
        tokens = 0
dist.all_reduce(loss.detach())
