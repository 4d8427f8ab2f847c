"""A loss that is not finite on one rank: the ranks agree on it, and all of them skip that batch.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    loss = model(torch.ones(1, 1)).sum()
    finite = torch.tensor([float((rank, step) != (1, 3))])
    dist.all_reduce(finite, op=dist.ReduceOp.MIN)
    if not finite.item():
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
