"""Rank 0 prints a distributed tensor: ``full_tensor()`` gathers it from all ranks, who do not come.

ranks: 3
expect: missing_call
suspects: 0
status: hung
limit: 10
cause: rank 0; BUG; full_tensor; only rank 0 | rank 0 alone | rank == 0 | never
fix: every rank; full_tensor()
never: /rank 0: (busy|running)/; 0 ms; in no collective
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (3,))
weights = distribute_tensor(torch.ones(6), mesh, [Shard(0)])
if rank == 0 or TWIN:
    print(weights.full_tensor())  # BUG
