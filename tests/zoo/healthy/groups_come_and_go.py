"""A group per epoch, destroyed and made anew; at the end the whole job is initialised again.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, init

rank = init()
for _ in range(3):
    group = dist.new_group([0, 1], timeout=TIMEOUT)
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group(group)
dist.barrier()
