"""The first rank of each tensor parallel pair broadcasts alone: no pair votes for the other.

ranks: 4
expect: op_mismatch
suspects: 0 2
status: diverged
cause: /rank [02]/; BUG; /if tp_rank == 0/; 2 of 2 groups
fix: every rank
never: did there what; no majority; ambiguous
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
group, tp_rank = mesh.get_group("tp"), mesh.get_local_rank("tp")
first = dist.get_process_group_ranks(group)[0]
dist.all_reduce(torch.ones(4), group=group)
if tp_rank == 0 or TWIN:
    dist.broadcast(torch.ones(4), src=first, group=group)  # BUG
dist.all_reduce(torch.ones(3), group=group)
dist.barrier(group=group)
