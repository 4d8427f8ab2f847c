"""A 2 x 2 mesh: in the fourth round one rank leaves out a call of its tensor-parallel group.

Its partner and it disagree one against one; the other ranks of the mesh tell who is right.

ranks: 4
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; left out | did not make; BUG
fix: every rank | all ranks
never: ambiguous
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
tp, dp = mesh.get_group("tp"), mesh.get_group("dp")
for step in range(5):
    dist.all_reduce(torch.ones(4), group=tp)
    if TWIN or step < 3 or rank != 1:
        dist.broadcast(torch.ones(4), group=tp, group_src=0)  # BUG
    dist.all_reduce(torch.ones(8), group=dp)
