"""Rank 2's gather is refused once, and it tries again with a proper output: the job copes with it.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for step in range(5):
    out = torch.empty(5 if (rank, step) == (2, 2) else 12)
    try:
        dist.all_gather_single(out, torch.ones(4))
    except RuntimeError:
        dist.all_gather_single(torch.empty(12), torch.ones(4))
    dist.all_reduce(torch.ones(1))
