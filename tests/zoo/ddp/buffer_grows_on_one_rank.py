"""A table of positions is a buffer that grows with the longest text; rank 0 has the longer ones.

ranks: 2
expect: shape_mismatch
suspects: none
status: diverged
cause: buffers; broadcast; BUG; float32[48]; float32[32]
fix: buffers; forward_sync_buffers
never: unused; drop_last; pad
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(4, 4)
        self.table: torch.Tensor
        self.register_buffer("table", torch.ones(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > len(self.table):
            self.table = torch.ones(len(x), 4)
        out: torch.Tensor = self.scale(x + self.table[: len(x)])
        return out


rank = init()
model = DistributedDataParallel(Positions())
for step in range(6):
    long = step == 3 and (rank == 0 or TWIN)
    model(torch.ones(12 if long else 5, 4)).sum().backward()  # BUG
