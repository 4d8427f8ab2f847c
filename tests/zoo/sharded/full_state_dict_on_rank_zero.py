"""Rank 0 alone asks for the full state dict of a sharded model, as one did with DDP.

ranks: 3
expect: op_mismatch shape_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; state_dict | get_model_state_dict | full_tensor | save*; only rank 0 | rank 0
    alone | rank == 0 | never
fix: every rank; get_model_state_dict(); full_state_dict=True
never: ragged; drop_last; loop ended; left the loop; logs do not show
"""

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


def save() -> None:
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    get_model_state_dict(net, options=options)  # BUG


rank = init()
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for step in range(5):
    net(torch.ones(1, 6)).sum().backward()
    if step == 2 and (rank == 0 or TWIN):
        save()
