"""A sharded optimizer steps under join(), which was only told of the model.

expect: op_mismatch
suspects: 1
status: diverged
cause: rank 0; 3 batches; 4 | 4th; ZeroRedundancyOptimizer; join*; BUG
fix: Join; optimizer | ZeroRedundancyOptimizer
never: with model.join()
"""

import torch
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
with Join([model, optimizer] if TWIN else [model]):
    for _ in range(3 + rank):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()  # BUG
