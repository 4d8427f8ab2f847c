"""join() over ranks with 0, 1 and 2 batches, in three epochs; nothing is wrong, nothing is said.

ranks: 3
expect: nothing
status: aligned
never: /-\\d+ batch/; role_mismatch
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
for _ in range(3):
    with model.join():
        for _ in range(rank):
            model(torch.ones(1, 2)).sum().backward()
