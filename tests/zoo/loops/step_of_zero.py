"""A sharded optimizer without DDP; in step 5 rank 2 has another gradient in hand.

ranks: 3
expect: shape_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; float32[3]; float32[2]; /(step|iteration) 5\\b/; /\\d+(st|nd|rd|th) of \\d+
    calls|call \\d+ of \\d+/
fix: size | shape
never: ragged; drop_last
"""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

from tests.zoo.common import TWIN, init

rank = init()
model = torch.nn.Linear(2, 1)
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
for step in range(1, 8):
    model(torch.ones(1, 2)).sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        gradient = parameter.grad.flatten()
        if (rank, step) == (2, 5) and not TWIN and gradient.numel() == 2:
            gradient = torch.ones(3)
        dist.all_reduce(gradient)  # BUG
    optimizer.step()
    optimizer.zero_grad()
