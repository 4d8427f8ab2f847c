"""join() with find_unused_parameters.

expect: nothing
status: aligned
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, both: bool) -> torch.Tensor:
        out: torch.Tensor = self.always(x)
        return out + self.sometimes(x) if both else out


rank = init()
model = DistributedDataParallel(Branches(), find_unused_parameters=True)
with model.join():
    for step in range(3 + rank):
        model(torch.ones(1, 1), both=step % 2 == 0).sum().backward()
