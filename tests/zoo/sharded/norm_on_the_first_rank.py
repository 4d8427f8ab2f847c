"""The norm of a sharded layer is worked out by a function that rank 0 alone calls, under its rank.

ranks: 2
expect: shape_mismatch op_mismatch
suspects: 0
status: diverged
cause: rank 0; CALL; CONDITION
fix: every rank | all ranks
never: drop_last; unused parameter; network
"""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


def norm(layer: nn.Module) -> torch.Tensor:
    found = nn.utils.get_total_norm(layer.parameters())  # CALL
    whole: torch.Tensor = found.full_tensor()  # type: ignore[attr-defined]
    return whole


rank = init()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    model(torch.ones(4, 6)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if TWIN:
        norm(model[0])
    elif rank == 0 and step % 4 == 3:  # CONDITION
        print(norm(model[0]), flush=True)  # BUG
