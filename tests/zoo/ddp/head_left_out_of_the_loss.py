"""On rank 1 one step has no use for the second head: its parameters get no gradients there.

So rank 1 never fills the bucket, and goes on to what comes behind each backward().

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 0; bucket; rank 1 had gone on; took no part; BUG
fix: every parameter; find_unused_parameters
never: left out; rank 0 had gone on; autograd runs
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Heads(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 2)
        self.second = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x), self.second(x)


rank = init()
model = DistributedDataParallel(Heads())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    one, two = model(torch.ones(1, 3))
    loss = one.sum() if (rank, step) == (1, 3) and not TWIN else one.sum() + two.sum()
    optimizer.zero_grad()
    loss.backward()  # BUG
    dist.all_reduce(loss.detach())
    optimizer.step()
dist.destroy_process_group()
