"""A sharded model; rank 0 evaluates alone after step 3, and its gathers meet those of training.

Same bytes, other lines: what fails comes later, in a backward. The evaluation is the cause.

ranks: 3
expect: op_mismatch role_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; CALLED; ASKS; evaluate*; forward | unshard | FSDP*; TRAINS;
    /since call \\d+/ | only rank 0 | rank 0 alone | never
fix: CALLED; ASKS; every rank; full_state_dict=True
never: ragged; drop_last; loop ended; left the loop; logs do not show; find_unused_parameters
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.zoo.common import TWIN, init


def evaluate() -> None:
    with torch.no_grad():
        net(torch.ones(1, 6))  # BUG


rank = init()
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
mesh = init_device_mesh("cpu", (3,))
for module in (*net, net):
    fully_shard(module, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    net(torch.ones(1, 6)).sum().backward()  # TRAINS
    optimizer.step()
    optimizer.zero_grad()
    if step == 3 and (rank == 0 or TWIN):  # ASKS
        evaluate()  # CALLED
