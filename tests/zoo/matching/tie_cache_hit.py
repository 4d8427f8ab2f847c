"""Two ranks. Both ask the shared index at every step; in step 12 rank 1 finds the answer cached.

expect: op_mismatch shape_mismatch
suspects: 1
status: diverged
cause: BUG; rank 1; name not in cache
fix: every rank | all ranks
never: ambiguous; rank 0 left; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
cache: dict[str, torch.Tensor] = {}
for step in range(16):
    name = f"clip {step if (rank, step) != (1, 12) else 3}"
    if TWIN or name not in cache:
        cache[name] = torch.ones(4)
        dist.all_reduce(cache[name])  # BUG
    dist.broadcast(torch.ones(9), src=0)
