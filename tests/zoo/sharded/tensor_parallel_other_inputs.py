"""A mesh of data by tensor parallelism whose samples are dealt out to all ranks: pairs differ.

ranks: 4
expect: shape_mismatch
suspects: none
status: diverged
cause: redistribute; all_reduce; BUG; RUNS; float32[2, 6]; float32[5, 6]; 2 of 2 groups
fix: same inputs; data-parallel
never: pad; ragged; drop_last; join()
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.zoo.common import TWIN, init

LENGTHS = [[4, 4], [4, 4], [4, 4], [4, 4], [2, 5], [3, 3]]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.up(x))  # BUG
        return out


rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
mine = mesh.get_local_rank("dp") if TWIN else rank % 2
block = Block()
parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
with torch.no_grad():
    for lengths in LENGTHS:
        block(torch.ones(lengths[mine], 6)).sum().item()  # RUNS
