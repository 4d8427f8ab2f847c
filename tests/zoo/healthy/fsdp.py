"""A sharded model: all_gather, reduce_scatter, and a checkpoint saved beside training.

expect: nothing
status: aligned
"""

import tempfile
from concurrent.futures import Future

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
mesh = init_device_mesh("cpu", (2,))
for layer in (*net, net):
    fully_shard(layer, mesh=mesh)
with tempfile.TemporaryDirectory() as own:
    shared: list[str] = [own]
    dist.broadcast_object_list(shared, src=0)
    for step in range(4):
        net(torch.ones(1, 4)).sum().backward()
        if step == 1:
            saving = async_save(
                net.state_dict(), checkpoint_id=shared[0], process_group=dist.new_group()
            )
    assert isinstance(saving, Future)
    saving.result()
    dist.barrier()
