"""join() is told to throw on uneven inputs: every rank raises, as asked.

expect: early_termination
severity: info
suspects: none
status: aligned
cause: throw_on_early_termination; 3 batches; 4 | 4th
fix: RuntimeError | nothing
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
with model.join(throw_on_early_termination=True):
    for _ in range(3 + rank):
        model(torch.ones(1, 2)).sum().backward()
