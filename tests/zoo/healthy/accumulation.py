"""Gradients accumulate under no_sync(), at the same steps everywhere; static_graph as well.

expect: nothing
status: aligned
"""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
for static_graph in (False, True):
    model = DistributedDataParallel(torch.nn.Linear(2, 2), static_graph=static_graph)
    for step in range(6):
        with nullcontext() if step % 2 or static_graph else model.no_sync():
            model(torch.ones(1, 2)).sum().backward()
