"""Every rank's gather is refused, for its output is too small; all catch that and reduce instead.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for _ in range(3):
    try:
        dist.all_gather_single(torch.empty(5), torch.ones(4))
    except RuntimeError:
        dist.all_reduce(torch.ones(4))
    dist.barrier()
