"""A 2 x 2 mesh. Rows have two ranks, so a row cannot say who is right; its sister row can.

ranks: 4
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; float32[6]; float32[4]; mesh_tp | tp; BUG; `width = 6 if rank == 1
fix: size | shape
never: ragged; drop_last
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
for step in range(3):
    width = 6 if rank == 1 and step == 2 and not TWIN else 4
    dist.all_reduce(torch.ones(width), group=mesh.get_group("tp"))  # BUG
    dist.all_reduce(torch.ones(1), group=mesh.get_group("dp"))
