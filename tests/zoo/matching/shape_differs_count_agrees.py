"""Rank 2 has the transpose: the same number of elements, mixed up in silence.

ranks: 3
expect: shape_mismatch
severity: warning
suspects: 2
status: aligned
cause: rank 2; [6, 2]; [2, 6]; elements; BUG
fix: shape | transpose
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
table = torch.ones(2, 6) if rank != 2 or TWIN else torch.ones(6, 2)
dist.all_reduce(table)  # BUG
