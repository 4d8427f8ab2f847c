"""Rank 1 is killed between two steps of a DDP training.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; died | killed; BUG
fix: exit code
never: took part in the loss; find_unused_parameters; ran out of inputs; bucket when
"""

import os
import signal

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)))
for step in range(6):
    if (rank, step) == (1, 3) and not TWIN:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.ones(2, 4)).sum().backward()  # BUG
