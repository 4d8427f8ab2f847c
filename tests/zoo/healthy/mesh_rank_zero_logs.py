"""A 2 x 2 mesh in which one replica evaluates alone, and rank 0 logs to a group of its own.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
log = dist.new_group([0, 3], group_desc="log")
for step in range(4):
    dist.all_reduce(torch.ones(4), group=mesh.get_group("tp"))
    if step % 2 and rank in (2, 3):
        dist.all_reduce(torch.ones(1), group=mesh.get_group("tp"))
    dist.all_reduce(torch.ones(8), group=mesh.get_group("dp"))
    if rank in (0, 3):
        dist.all_reduce(torch.ones(1), group=log)
