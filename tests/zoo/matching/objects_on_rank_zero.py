"""Rank 0 broadcasts its configuration; the others go straight on to the reduction.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; broadcast_object_list; BUG; rank == 0 | only rank 0 | rank 0 alone
fix: every rank | all ranks
never: up to here the ranks agree; logs do not show
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
config: list[dict[str, float] | None] = [{"lr": 0.1} if rank == 0 else None]
if rank == 0 or TWIN:
    dist.broadcast_object_list(config, src=0)  # BUG
dist.all_reduce(torch.ones(2))
