"""A solver goes on until the residual is small, which is reduced to rank 0 only.

Rank 2 stops by what it holds itself, and so would the others by theirs: none of them did wrong.

ranks: 3
expect: op_mismatch
suspects: none
status: diverged
cause: REDUCED; WHILE; residual; only the root; dist.reduce(residual
fix: all_reduce instead of reduce | broadcast what the root
never: ambiguous; rank 2 has left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
step = 0
residual = torch.full((1,), 9.0)
while residual.item() > 0.5:  # WHILE
    step += 1
    residual = torch.full((1,), (3.0 - rank) / step**2)
    if TWIN:
        dist.all_reduce(residual)
    else:
        dist.reduce(residual, dst=0)  # REDUCED
    dist.barrier()
dist.all_gather_single(torch.empty(6), torch.ones(2))  # BUG
