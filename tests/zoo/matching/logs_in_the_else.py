"""All but rank 0 are to stay out of the `else`; the condition was turned round.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; all_gather; BUG; the `else` of `if rank > 0; asks for the rank
fix: every rank; none
never: Only rank 0 was under `if rank > 0
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    dist.all_reduce(torch.ones(2))
    if rank > 0 or step != 3 or TWIN:
        weight = torch.zeros(1)
    else:
        weight = torch.ones(3)
        dist.all_gather([torch.empty(3) for _ in range(3)], weight)  # BUG
