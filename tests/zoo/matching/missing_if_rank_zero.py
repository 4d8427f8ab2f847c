"""Only rank 0 waits at the end: ``if rank == 0`` in front of a barrier.

ranks: 3
expect: missing_call
suspects: 0
status: hung
cause: rank 0; barrier; BUG; rank == 0 | only rank 0 | rank 0 alone
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
metric = torch.ones(4)
dist.all_reduce(metric)
if rank == 0 or TWIN:
    dist.barrier()  # BUG
