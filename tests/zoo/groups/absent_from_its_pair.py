"""Two tensor-parallel pairs. Rank 3 skips the norm of its pair once; the other pair shows it wrong.

In the pair alone nobody could say who is wrong: one went on, one did not.

ranks: 4
expect: op_mismatch deadlock missing_call
suspects: 3
status: diverged hung
limit: 8
cause: rank 3; all_reduce; BUG; left out | did not | skip* | without
fix: every rank | all ranks
never: ambiguous; each is right by itself; different order
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
tensor, data = mesh.get_group("tp"), mesh.get_group("dp")
for step in range(4):
    dist.broadcast(torch.ones(2), group_src=0, group=tensor)
    if (rank, step) != (3, 2) or TWIN:
        dist.all_reduce(torch.ones(1), group=tensor)  # BUG
    dist.all_gather_single(torch.empty(8), torch.ones(4), group=tensor)
    dist.all_reduce(torch.ones(4), group=data)
