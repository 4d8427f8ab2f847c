"""A tensor-parallel block; rank 1 returns early for a short input, without the second layer.

ranks: 3
expect: op_mismatch shape_mismatch missing_call role_mismatch
suspects: 1
status: diverged hung
cause: rank 1; BUG; left out | did not | skip* | without; redistribute | tensor parallel* |
    RowwiseParallel
fix: every rank; parallel modules
never: ragged; drop_last; loop ended; left the loop; logs do not show
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.zoo.common import TWIN, init


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, short: bool) -> torch.Tensor:
        hidden: torch.Tensor = self.up(x)
        if short and not TWIN:
            return hidden
        out: torch.Tensor = self.down(hidden)  # BUG
        return out


rank = init()
mesh = init_device_mesh("cpu", (3,))
block = Block()
parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
with torch.no_grad():
    for step in range(5):
        block(torch.ones(1, 6), short=(rank, step) == (1, 2)).sum().item()
        dist.barrier()
