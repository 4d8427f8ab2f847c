"""PowerSGD: part of its collectives come from a thread of C++.

expect: nothing
status: aligned
"""

import torch
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(32, 32))
state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
model.register_comm_hook(state, powerSGD_hook)
for _ in range(5):
    model(torch.ones(1, 32)).sum().backward()
