"""Two ranks enter two groups in opposite order.

expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; group 1; group 2; BUG
fix: same order | same group
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
groups = [dist.new_group([0, 1], timeout=TIMEOUT), dist.new_group([0, 1], timeout=TIMEOUT)]
if rank == 1 and not TWIN:
    groups.reverse()
for group in groups:
    dist.all_reduce(torch.ones(1), group=group)  # BUG
