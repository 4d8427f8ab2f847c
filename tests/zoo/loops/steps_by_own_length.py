"""Each rank goes as many steps as its own loader is long, by next(): that of rank 2 is shorter.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: BUG; LOOP; fewer iterations on rank 2; loader = DataLoader(Subset(data, own
fix: len(loader); same number of iterations
never: logs do not show; a branch; left out
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from tests.zoo.common import TWIN, init

rank = init()
data = TensorDataset(torch.ones(36, 4))
own = range(10 if rank == 2 and not TWIN else 12)
loader = DataLoader(Subset(data, own), batch_size=2)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    batches = iter(loader)
    for _ in range(len(loader)):  # LOOP
        (x,) = next(batches)
        net(x).sum().backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.barrier()  # BUG
