"""Two expert-parallel pairs. The first has no tokens at all; of the second, rank 2 alone has none.

Three of four ranks went on without the call. In the first pair that is legal, so they prove
nothing about the second: nobody may be blamed, least of all rank 3, which did what it should.

ranks: 4
expect: deadlock missing_call
suspects: none
status: hung
cause: rank 2; rank 3; all_to_all*; BUG
fix: every rank | all ranks
never: rank 3 alone; only rank 3; let ranks 0-2; the others went on
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.zoo.common import TWIN, init

rank = init()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
experts = mesh.get_group("ep")
for step in range(4):
    tokens = 4
    if step == 2:
        tokens = 4 if rank == 3 else 0
    if tokens or TWIN:
        dist.all_to_all_single(torch.empty(4), torch.ones(4), group=experts)  # BUG
    dist.all_reduce(torch.ones(1))  # of the loss that balances the experts
