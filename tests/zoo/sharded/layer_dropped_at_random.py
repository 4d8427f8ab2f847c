"""Layers are dropped at random, and rank 1 draws other numbers: it does not gather ``layers.2``.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; layers.2; BUG; random | rand; left out | did not | skip* | without | drop*
fix: every rank; times zero; does not help
never: ragged; drop_last; rank == 0; loop ended; left the loop; logs do not show
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if torch.rand((), generator=generator).item() > DROPPED:
                x = layer(x)  # BUG
        return x


rank = init()
# In three steps, seed 2 drops no layer, and seed 26 the third layer of the second step.
generator = torch.Generator().manual_seed(26 if rank == 1 and not TWIN else 2)
DROPPED = 0.05
net = Stack()
mesh = init_device_mesh("cpu", (3,))
for module in (*net.layers, net):
    fully_shard(module, mesh=mesh)
for _ in range(3):
    net(torch.ones(1, 6)).sum().backward()
