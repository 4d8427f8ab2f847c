"""Each epoch begins with a note that all agree on; in the last one ranks 0 and 1 have no rows left.

All were in the loop over the rows before that note: who is in it again is in the same epoch.

ranks: 3
expect: missing_call
suspects: 2
status: hung
cause: ranks 0-1; rank 2; BUG
fix: same number of batches | same length
never: another round of `for epoch; ran longer there; equally often
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    dist.barrier()
    rows = 0 if epoch == 3 and rank < 2 and not TWIN else 3
    for row in torch.ones(rows, 2, 4):
        optimizer.zero_grad()
        model(row).square().mean().backward()  # BUG
        optimizer.step()
