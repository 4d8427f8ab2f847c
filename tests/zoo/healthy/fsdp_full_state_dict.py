"""A sharded model whose full state dict every rank asks for, and only rank 0 writes.

ranks: 3
expect: nothing
status: aligned
"""

import io

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for step in range(4):
    net(torch.ones(1, 6)).sum().backward()
    if step == 2:
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_model_state_dict(net, options=options)
        if rank == 0:
            torch.save(state, io.BytesIO())
