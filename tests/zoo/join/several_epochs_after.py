"""Two epochs under join() go well; in the third it is forgotten, and rank 1 has one batch more.

Rank 0 has 2 batches in each epoch, rank 1 has 3.

expect: missing_call
suspects: none
status: hung
cause: uneven; rank 0; rank 1; /\\b(2|6|8) (batches|forward passes)/; BUG
fix: join(); same number of batches
never: /-\\d+ (batch|forward)/
"""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for epoch in range(3):
    with model.join() if epoch < 2 or TWIN else nullcontext():
        for _ in range(2 + rank):
            model(torch.ones(1, 1)).sum().backward()  # BUG
