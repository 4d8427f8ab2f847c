"""Rank 1 scatters a longer input into a longer output.

ranks: 3
expect: shape_mismatch
suspects: 1
status: diverged
cause: rank 1; float32[18]; float32[12]; BUG
fix: size | shape
never: ragged; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
share = 6 if rank == 1 and not TWIN else 4
dist.reduce_scatter_single(torch.empty(share), torch.ones(3 * share))  # BUG
