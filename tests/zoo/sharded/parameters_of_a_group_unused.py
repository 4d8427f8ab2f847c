"""Two layers are sharded as one group; in one step rank 1 does not use the second.

Its reduce-scatter holds the gradients of one layer only. Here, and only here, the setting helps.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; FSDP reduce-scatter; sizes
fix: set_reduce_scatter_unused_params(True); every rank
never: ragged; drop_last; DataLoader; pad; find_unused_parameters; times zero
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, deep: bool) -> torch.Tensor:
        out: torch.Tensor = self.first(x)
        return self.second(out) if deep else out


rank = init()
block = Block()
mesh = init_device_mesh("cpu", (3,))
model = fully_shard(block, mesh=mesh)
if TWIN:
    model.set_reduce_scatter_unused_params(True)
for step in range(5):
    block(torch.ones(1, 6), (rank, step) != (1, 3)).sum().backward()  # BUG
