"""Every call is complete, and the ranks wait to be ended by whoever started them: nothing is open.

ranks: 3
expect: nothing
status: aligned
kill_after: 4
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for _ in range(20):
    dist.all_reduce(torch.ones(1))
time.sleep(60)
