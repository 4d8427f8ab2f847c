"""join() with buffers, whose owner must be agreed upon each step.

ranks: 3
expect: nothing
status: aligned
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(net)
with model.join():
    for _ in range(3 + rank):
        model(torch.randn(4, 2)).sum().backward()
