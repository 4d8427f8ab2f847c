"""Sharded generation until an end token: rank 0 needs five forwards, the others three.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch missing_call
suspects: 0
status: diverged
cause: rank 0; BUG; FSDP unshard
fix: every rank
never: ragged; drop_last; DataLoader; find_unused_parameters; logs do not show
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for _ in range(3):
    net(torch.ones(1, 6)).sum().backward()
    dist.barrier()
with torch.no_grad():
    x, length = torch.ones(1, 6), 5 if rank == 0 or TWIN else 3
    for _ in range(length):
        x = net(x)  # BUG
dist.barrier()
