"""A job that runs on, looked at while it does.

ranks: 3
expect: nothing
status: aligned unknown
limit: 2
live: yes
"""

import time

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
