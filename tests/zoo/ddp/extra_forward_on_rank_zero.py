"""Rank 0 tries the wrapped model on a sample, which broadcasts the buffers of its BatchNorm.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; forward; BUG; buffers; if rank == 0 and epoch == 1
fix: model.module | .module
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(net)
for epoch in range(4):
    model(torch.randn(4, 2)).sum().backward()
    if rank == 0 and epoch == 1:
        tried = model.module if TWIN else model
        tried(torch.randn(4, 2))  # BUG
