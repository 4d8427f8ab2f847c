"""Rank 0 alone clips the gradients of a sharded model: their norm is a reduction over all ranks.

ranks: 3
expect: op_mismatch shape_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; clip* | norm; only rank 0 | rank 0 alone | rank == 0 | never
fix: every rank; clip_grad_norm_()
never: ragged; drop_last; loop ended; left the loop; logs do not show
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for step in range(5):
    net(torch.ones(1, 6)).sum().backward()
    if step == 2 and (rank == 0 or TWIN):
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # BUG
    net.zero_grad()
