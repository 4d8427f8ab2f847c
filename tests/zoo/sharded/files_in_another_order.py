"""Rank 1 finds the shards of a checkpoint in another order; each is spread over the mesh in turn.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; DTensor; scatter | broadcast; order
fix: one order; sorted
never: left out; a branch skipped; drop_last
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
state = {"a": (6, 2), "b": (4,), "c": (6, 2), "d": (4,), "e": (6, 2), "f": (4,), "g": (6, 2)}
found = list(state)
if rank == 1 and not TWIN:
    found[5:] = found[:4:-1]
for name in found:
    tensor = torch.ones(state[name])
    placement = Shard(0) if tensor.dim() > 1 else Replicate()
    distribute_tensor(tensor, mesh, [placement])  # BUG
dist.barrier()
