"""join() over buffers; rank 0 has no batch in the first epoch, rank 1 none in the second.

expect: nothing
status: aligned
never: /-\\d+ batch/
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(net)
for batches in ((0, 1), (2, 0), (1, 2)):
    with model.join():
        for _ in range(batches[rank]):
            model(torch.randn(4, 2)).sum().backward()
