"""Two DDP models on one group, trained in turn.

expect: nothing
status: aligned
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
models = [DistributedDataParallel(torch.nn.Linear(2, 2)) for _ in range(2)]
for _ in range(3):
    for model in models:
        model(torch.ones(1, 2)).sum().backward()
