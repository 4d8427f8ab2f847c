"""Two stages of two ranks: each stage has a program of its own, and a rank 0 that logs besides.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TIMEOUT, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
replicas = mesh.get_group("dp")
loggers = dist.new_group([0, 3], timeout=TIMEOUT)
for step in range(4):
    if rank < 2:
        dist.send(torch.ones(4), dst=rank + 2)
        dist.all_reduce(torch.ones(4), group=replicas)
    else:
        dist.recv(torch.empty(4), src=rank - 2)
        for _ in range(step):
            dist.all_reduce(torch.ones(6), op=dist.ReduceOp.MAX, group=replicas)
    if rank in {0, 3}:
        dist.broadcast(torch.ones(1), src=3, group=loggers)
