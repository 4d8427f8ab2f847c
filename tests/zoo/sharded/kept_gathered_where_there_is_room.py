"""Rank 1 holds fewer samples, finds room, and keeps what it gathered until its backward.

After the second step each rank looks at what it has left by itself.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; blocks.1; reshard_after_forward; backward
fix: reshard_after_forward; every rank
never: ragged; times zero; took no part in the loss; left the module out; other modules
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from tests.zoo.common import TWIN, init

ROOM = 40


class Tower(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x).relu()
        return x


def keep(tower: Tower) -> None:
    for block in tower.blocks:
        assert isinstance(block, FSDPModule)
        block.set_reshard_after_forward(reshard_after_forward=False)


rank = init()
tower = Tower()
mesh = init_device_mesh("cpu", (3,))
for module in (*tower.blocks, tower):
    fully_shard(module, mesh=mesh)
samples = 4 if rank == 1 and not TWIN else 8
for step in range(4):
    tower(torch.ones(samples, 6)).sum().backward()  # BUG
    if step == 1 and samples * 6 < ROOM:
        keep(tower)
