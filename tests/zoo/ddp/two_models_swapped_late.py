"""Rank 2 trains the discriminator before the generator once, long after the buckets are rebuilt.

Same bytes, same line, another model: the gradients of one are added to those of the other.

ranks: 3
expect: role_mismatch
suspects: 2
status: diverged
cause: rank 2; model 1; model 2; order*; BUG
fix: order
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
generator = DistributedDataParallel(torch.nn.Linear(2, 2))
discriminator = DistributedDataParallel(torch.nn.Linear(2, 2))
for step in range(8):
    models = [generator, discriminator]
    if rank == 2 and step == 5 and not TWIN:
        models.reverse()
    for model in models:
        model(torch.ones(1, 2)).sum().backward()  # BUG
