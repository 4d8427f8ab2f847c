"""A sharded model; in step 5 rank 1 meets the others in a barrier of its own.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; barrier; BUG;
    `if step == 5 and (rank == 1 or TWIN):`; unshard
fix: barrier; step_of_fsdp.py:28; BUG; every rank | all ranks
never: left the loop; loop ended
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
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1, 8):
    net(torch.ones(1, 6)).sum().backward()
    if step == 5 and (rank == 1 or TWIN):
        dist.barrier()  # BUG
    optimizer.step()
    optimizer.zero_grad()
