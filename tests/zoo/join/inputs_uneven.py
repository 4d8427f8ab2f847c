"""Rank 1 has one batch more, and nothing takes care of it.

expect: missing_call
suspects: none
status: hung
cause: uneven inputs; rank 0; rank 1; 5; 6 | 6th
fix: same number of batches; join()
"""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
with model.join() if TWIN else nullcontext():
    for _ in range(5 + rank):
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()  # BUG
