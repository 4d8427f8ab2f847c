"""Rank 1 does not use a branch, so that its gradients are never complete.

expect: missing_call
suspects: 1
status: hung
cause: rank 1; took no part; `sometimes.weight` and `sometimes.bias`
fix: find_unused_parameters | take part
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, both: bool) -> torch.Tensor:
        out: torch.Tensor = self.always(x)
        return out + self.sometimes(x) if both else out


rank = init()
model = DistributedDataParallel(Branches(), find_unused_parameters=TWIN)
for _ in range(3):
    loss = model(torch.ones(1, 1), both=rank == 0).sum()  # BUG
    loss.backward()
