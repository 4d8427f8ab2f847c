"""Experts over all ranks, gradients over pairs: a rank without tokens leaves out the exchange.

The ranks wait in a circle of two groups, and each is right by itself; but three of four made the
exchange there, as all did in every round before.

ranks: 4
expect: deadlock
suspects: 2
status: hung
cause: rank 2; left out | did not make; BUG
fix: every rank | all ranks | zero | empty
never: Each is right by itself
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
tokens, received = torch.ones(4), torch.empty(4)
for step in range(4):
    if TWIN or step < 3 or rank != 2:
        dist.all_to_all_single(received, tokens)  # BUG
    dist.all_reduce(torch.ones(8), group=mesh.get_group("dp"))
