"""Two expert-parallel pairs; a rank without tokens makes its all_to_all all the same, with nothing.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
experts, replicas = mesh.get_group("ep"), mesh.get_group("dp")
for step in range(4):
    tokens = 0 if (rank, step) == (2, 2) else 2 * (1 + rank)
    sent = torch.tensor([tokens // 2, tokens // 2])
    awaited = torch.empty_like(sent)
    dist.all_to_all_single(awaited, sent, group=experts)
    here = torch.empty(int(awaited.sum()))
    dist.all_to_all_single(here, torch.ones(tokens), awaited.tolist(), sent.tolist(), group=experts)
    dist.all_reduce(torch.ones(1), group=replicas)
