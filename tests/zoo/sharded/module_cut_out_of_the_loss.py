"""Rank 1 runs a branch of the model and leaves it out of the loss: its gradients are never reduced.

All ranks gather its parameters; only in backward is it missing on rank 1.

ranks: 3
expect: shape_mismatch op_mismatch role_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; branch; gradients; did not
fix: every rank; times zero
never: ragged; drop_last; DataLoader; pad; find_unused_parameters; set_reduce_scatter_unused_params
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.branch = torch.nn.Linear(6, 6), torch.nn.Linear(6, 9)

    def forward(self, x: torch.Tensor, weight: float) -> torch.Tensor:
        x = self.trunk(x)
        side = self.branch(x).sum()
        if not weight and not TWIN:
            return x.sum()
        out: torch.Tensor = x.sum() + weight * side
        return out


rank = init()
net = Net()
mesh = init_device_mesh("cpu", (3,))
for module in (net.trunk, net.branch, net):
    fully_shard(module, mesh=mesh)
for step in range(5):
    net(torch.ones(1, 6), 0.0 if (rank, step) == (1, 3) else 1.0).backward()  # BUG
