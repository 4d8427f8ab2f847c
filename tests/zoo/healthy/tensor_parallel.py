"""Tensor and data parallelism on a 2 x 2 mesh, with gradients clipped by their norm over all ranks.

ranks: 4
expect: nothing
status: aligned
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.zoo.common import init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(net, mesh=mesh["dp"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(2, 4)).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert isinstance(norm, DTensor)
    norm.full_tensor()
    optimizer.step()
    optimizer.zero_grad()
