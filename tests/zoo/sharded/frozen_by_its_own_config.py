"""Rank 1 freezes the trunk of the sharded model, as the config on its disk says.

No gradients of the trunk come there, so it goes on to the next forward without reducing them.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; reduce-scatter; BUG; frozen
fix: Freeze the same parameters on every rank
never: random number
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

WIDTH = 6

rank = init()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
trunk, head = nn.Linear(WIDTH, 15), nn.Linear(15, 4)
trunk.requires_grad_(TWIN or rank != 1)
model = nn.Sequential(trunk, nn.ReLU(), head)
for part in (trunk, head, model):
    fully_shard(part, mesh=mesh)
for _ in range(3):
    loss = model(torch.randn(4, WIDTH)).square().mean()
    loss.backward()  # BUG
dist.barrier()
dist.destroy_process_group()
