"""Somebody presses Ctrl-C while all is well: every rank ends at once, one call apart.

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
while True:
    time.sleep(0.1 * (rank != 1))
    dist.all_reduce(torch.ones(1))
