"""A 2 x 2 mesh: each rank in a row and in a column.

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
for _ in range(3):
    dist.all_reduce(torch.ones(4), group=mesh.get_group("tp"))
    dist.all_reduce(torch.ones(1), group=mesh.get_group("dp"))
