"""Every pair of ranks exchanges another amount, and all pairs fit.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
sent = [[1, 2, 3], [4, 0, 1], [2, 2, 2]]
awaited = [row[rank] for row in sent]
dist.all_to_all_single(torch.empty(sum(awaited)), torch.ones(sum(sent[rank])), awaited, sent[rank])
