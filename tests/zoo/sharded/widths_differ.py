"""Sharded training; rank 1 has smaller batches, as it may, and a wider layer, as it may not.

The shards of its layer have another size: no batch is ragged here.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; unshard | FSDP*; all_gather*
fix: same model; every rank
never: ragged; drop_last; pad
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
width = 9 if rank == 1 and not TWIN else 6
net = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Linear(width, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for _ in range(3):
    net(torch.ones(1 if rank == 1 else 4, 6)).sum().backward()  # BUG
