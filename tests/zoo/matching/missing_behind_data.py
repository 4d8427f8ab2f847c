"""Rank 1 meets a loss that is not finite, skips the reduction and goes on to the barrier.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; all_reduce; SKIPPED; left out | did not issue | skip*; branch | isfinite
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(4):
    loss = torch.tensor([1.0 if (rank, step) != (1, 2) else float("nan")])
    if TWIN or torch.isfinite(loss).all():
        dist.all_reduce(loss)  # SKIPPED
    dist.barrier()  # BUG
