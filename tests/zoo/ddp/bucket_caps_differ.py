"""Rank 1 was given another bucket size: its gradients go out in other portions.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; bucket_cap_mb; BUG
fix: bucket_cap_mb | same arguments
never: find_unused_parameters; take part in the loss
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
cap = 0.001 if rank == 1 and not TWIN else 25  # CAP
# Without this, ranks would agree on rank 0's buckets after the first step.
model = DistributedDataParallel(net, bucket_cap_mb=cap, find_unused_parameters=True)
for _ in range(2):
    model(torch.ones(1, 16)).sum().backward()  # BUG
