"""Rank 1 reduces accuracy before loss: the same bytes, and the two numbers are mixed up.

ranks: 3
expect: role_mismatch
severity: warning
suspects: 1
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
loss, accuracy = torch.tensor([2.0]), torch.tensor([0.5])
for _ in range(3):
    if rank == 1 and not TWIN:
        dist.all_reduce(accuracy)  # BUG
        dist.all_reduce(loss)  # BUG
    else:
        dist.all_reduce(loss)
        dist.all_reduce(accuracy)
