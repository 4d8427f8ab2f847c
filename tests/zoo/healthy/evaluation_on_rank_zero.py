"""Rank 0 evaluates for long through the wrapper; DDP leaves out the next broadcast: all fits.

ranks: 3
expect: nothing
status: aligned
"""

import time

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(net)
for epoch in range(3):
    model(torch.randn(4, 2)).sum().backward()
    if rank == 0 and epoch == 1:
        time.sleep(3)
        with torch.no_grad():
            model(torch.randn(4, 2))
