"""Each rank scores its own part of a held-out set; rank 2's part gives one batch more.

Its forward gathers what the others gather for the next epoch of training: bytes fit for a while.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 2
status: diverged
cause: uneven inputs; BUG; LOOP; rank 2; /\\b3 batches/; /\\b4th/
fix: LOOP; same number of batches; drop_last=True; DistributedSampler
never: times zero; set_reduce_scatter_unused_params; this forward; only rank 2; 1st of 2 calls
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init


def score(part: TensorDataset) -> None:
    with torch.inference_mode():
        for (batch,) in DataLoader(part, batch_size=2):  # LOOP
            net(batch)  # BUG


rank = init()
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
held_out = TensorDataset(torch.ones(7 if rank == 2 and not TWIN else 6, 4))
for _ in range(2):
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    score(held_out)
