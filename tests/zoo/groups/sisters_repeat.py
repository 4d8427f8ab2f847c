"""Three tensor-parallel pairs; in each the second rank takes the maximum: one mistake, not three.

In each pair one of two is wrong, and so over all the pairs: nobody may be blamed.

ranks: 6
expect: reduce_op_mismatch
suspects: none
status: diverged
cause: MAX; SUM; mesh_tp | tp; /\\b3 of 3 groups/ | all 3 groups | each of the 3; BUG
fix: same op
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (3, 2), mesh_dim_names=("dp", "tp"))
first = mesh.get_local_rank("tp") == 0
for _ in range(3):
    op = dist.ReduceOp.SUM if first or TWIN else dist.ReduceOp.MAX
    dist.all_reduce(torch.ones(4), op=op, group=mesh.get_group("tp"))  # BUG
    dist.all_reduce(torch.ones(1), group=mesh.get_group("dp"))
