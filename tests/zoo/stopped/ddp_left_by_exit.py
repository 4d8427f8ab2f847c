"""Rank 1 calls sys.exit() in a step of a DDP training, after its backward().

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; sys.exit; EXITS; BUG
fix: alone | every rank | all ranks
never: took part in the loss; find_unused_parameters; ran out of inputs; bucket when
"""

import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(nn.Linear(4, 1))
step = 0
while step < 6:
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()  # BUG
    if (rank, step) == (1, 3) and not TWIN:
        sys.exit(0)  # EXITS
    step += 1
