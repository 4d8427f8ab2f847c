"""Two of three ranks fail: the majority is wrong.

ranks: 3
expect: missing_call
suspects: 1 2
status: hung
cause: ranks 1-2; ValueError; batch 2 has no labels; BUG
fix: raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(5):
    if rank > 0 and step == 2 and not TWIN:
        raise ValueError("batch 2 has no labels")  # BUG
    dist.all_reduce(torch.ones(1))
