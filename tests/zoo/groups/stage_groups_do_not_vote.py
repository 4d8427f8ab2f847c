"""Two pipeline stages of two ranks. In the first the ranks disagree about a size: one is wrong.

The group of the other stage happens to use the size of rank 1, which is legal and proves nothing:
another stage is another program. Nobody may be blamed.

ranks: 4
expect: shape_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; float32[4]; float32[6]; BUG
fix: size | shape
never: ragged; drop_last
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
replicas = mesh.get_group("dp")
stage = rank // 2
for step in range(3):
    activation = torch.ones(8)
    if stage == 0:
        dist.send(activation, dst=rank + 2)
    else:
        dist.recv(activation, src=rank - 2)
    width = 6 if stage == 1 or (rank == 1 and step == 2 and not TWIN) else 4
    dist.all_reduce(torch.ones(width), group=replicas)  # BUG
