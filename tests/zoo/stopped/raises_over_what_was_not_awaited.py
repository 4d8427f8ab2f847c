"""The sum is read while it is under way; a check of what came of it ends both ranks.

expect: raised
severity: warning
suspects: none
status: aligned
cause: rank*; sums differ; never waited; STARTED
fix: wait(); STARTED; raised
never: no collective has to be changed; network
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
read = torch.zeros(1)
for _ in range(4):
    ones = torch.ones(1)
    time.sleep(0.2 * rank)
    work = dist.all_reduce(ones, async_op=True)  # STARTED
    if TWIN:
        work.wait()
    read += ones
    dist.barrier()
everybodys = [torch.empty(1) for _ in range(2)]
dist.all_gather(everybodys, read)
if any(one.item() != 8 for one in everybodys):
    raise RuntimeError(f"sums differ: {everybodys}")
