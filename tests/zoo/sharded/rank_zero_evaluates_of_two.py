"""The same with two ranks. Rank 0 has made calls at a line where rank 1 has never been.

All that comes after them is equal, shifted by their number: that decides a tie.

expect: op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; forward | unshard | FSDP*; never | only rank 0 | rank 0 alone
fix: every rank; full_state_dict=True
never: ragged; drop_last; loop ended; left the loop; logs do not show; ambiguous
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


def evaluate() -> None:
    with torch.no_grad():
        net(torch.ones(1, 4))  # BUG


rank = init()
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
mesh = init_device_mesh("cpu", (2,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
for step in range(6):
    net(torch.ones(1, 4)).sum().backward()
    if step == 3 and (rank == 0 or TWIN):
        evaluate()
