"""join() around accumulation under no_sync().

expect: nothing
status: aligned
"""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join():
    for step in range(4 + 2 * rank):
        with nullcontext() if step % 2 else model.no_sync():
            model(torch.ones(1, 1)).sum().backward()
