"""Rank 1 asks for find_unused_parameters, which costs it a collective that the others lack.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; find_unused_parameters
fix: same arguments | find_unused_parameters
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
search = TWIN or rank == 1
model = DistributedDataParallel(torch.nn.Linear(1, 1), find_unused_parameters=search)
for _ in range(3):
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()  # BUG
