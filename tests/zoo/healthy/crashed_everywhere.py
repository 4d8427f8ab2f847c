"""Every rank raises for a reason of its own; the streams agree.

ranks: 3
expect: raised
severity: warning
suspects: none
status: aligned
cause: ranks 0-2; ValueError; loss is not finite
fix: raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for step in range(5):
    dist.all_reduce(torch.ones(1))
    if step == 3:
        dist.barrier()
        raise ValueError("loss is not finite")
