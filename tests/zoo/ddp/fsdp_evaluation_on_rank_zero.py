"""Rank 0 alone runs a forward pass of a sharded model: its all_gather meets no other.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; forward | unshard | FSDP*; only rank 0 | rank 0 alone | never | extra | rank ==
    0
fix: every rank | all ranks | same number
never: logs do not show
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Linear(4, 4)
fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
for step in range(3):
    net(torch.ones(1, 4)).sum().backward()
    if step == 1 and (rank == 0 or TWIN):
        with torch.no_grad():
            net(torch.ones(1, 4))  # BUG
    dist.barrier()
