"""Hybrid sharding over four ranks: rank 3 has a batch whose loss is not finite, and skips it.

Its forward was begun with the others, its backward was not: groups of both dimensions wait.

ranks: 4
expect: role_mismatch op_mismatch shape_mismatch missing_call
suspects: 3
status: diverged hung
cause: rank 3; BUG; GUARD; with a return
fix: all ranks; GUARD
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batch: torch.Tensor) -> None:
    loss = model(batch).square().mean()
    if not torch.isfinite(loss):  # GUARD
        return
    loss.backward()  # BUG
    optimizer.step()
    optimizer.zero_grad()


for number in range(9):
    broken = (rank, number) == (3, 5) and not TWIN
    train(torch.full((2, 8), float("inf") if broken else 1.0))
