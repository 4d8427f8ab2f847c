"""Rank 0 evaluates through the wrapper when training is over: it broadcasts buffers to nobody.

ranks: 3
expect: missing_call
suspects: 0
status: hung diverged
cause: rank 0; forward; BUG; buffers | issues collectives
fix: model.module | .module
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(net)
for _ in range(3):
    model(torch.randn(4, 2)).sum().backward()
if rank == 0:
    evaluated = model.module if TWIN else model
    with torch.no_grad():
        evaluated(torch.randn(4, 2))  # BUG
