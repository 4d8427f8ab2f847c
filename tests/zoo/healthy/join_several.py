"""One Join for the model and its sharded optimizer.

expect: nothing
status: aligned
"""

import torch
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
with Join([model, optimizer]):
    for _ in range(3 + rank):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
