"""Ctrl-C while all is well, caught by every rank, which then ends as it should.

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
    while True:
        dist.all_reduce(torch.ones(1))
        time.sleep(0.001 * rank)
except KeyboardInterrupt:
    print("stopped by hand")
