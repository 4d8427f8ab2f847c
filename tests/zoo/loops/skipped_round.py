"""Rank 1 meets a loss that is not finite and skips that batch: iteration 31 of 60.

All rounds look alike, so nothing fails before the end, when rank 1 has one less.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; /(iteration|step|batch|forward|pass|round) 3[0-2]\\b/ | 31st | 30th; BUG; skip* |
    left out | without | no backward; if finite*
fix: every rank | all ranks
never: ran longer; 60 times; 59 times; fewer batches; 59 batches; model.join()
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
for step in range(60):
    loss = model(torch.ones(1, 1)).sum()
    finite = (rank, step) != (1, 30)
    if finite or TWIN:
        loss.backward()  # BUG
