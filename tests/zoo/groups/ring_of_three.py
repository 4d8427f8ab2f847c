"""Three ranks, three groups of two: each waits in the first for somebody who waits in another.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: circle | each other | cycle; group 1; group 2; group 3; BUG
fix: same order | before
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
pairs = [(0, 1), (1, 2), (0, 2)]
groups = {pair: dist.new_group(list(pair), timeout=TIMEOUT) for pair in pairs}
mine = [pair for pair in pairs if rank in pair]
if rank == 0 and not TWIN:
    mine.reverse()
for pair in mine:
    dist.all_reduce(torch.ones(1), group=groups[pair])  # BUG
