"""Rank 2 is shown one device, and lays its mesh out as four nodes of one.

ranks: 4
expect: group_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG
fix: same shape; init_device_mesh
never: use_local_synchronization; on members only
limit: 20
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()


def hybrid(per_node: int) -> DeviceMesh:
    shape = (dist.get_world_size() // per_node, per_node)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))  # BUG


dist.all_reduce(torch.ones(4))
mesh = hybrid(1 if rank == 2 and not TWIN else 2)
dist.all_reduce(torch.ones(4), group=mesh.get_group("shard"))
