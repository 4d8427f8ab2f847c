"""Ctrl-C while all is well, caught by every rank, which then ends as it should.

Rank 1 is in a call then, the others are between two: that they are out of step proves nothing.

ranks: 3
expect: nothing
status: aligned unknown
interrupt_after: 2
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
try:
    for step in range(10):
        if step == 6 and rank != 1:
            time.sleep(60)  # an evaluation
        dist.all_reduce(torch.ones(1))
except KeyboardInterrupt:
    print("stopped by hand")
