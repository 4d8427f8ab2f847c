"""Rank 1 freezes a layer; every constructor finds that the numbers of parameters differ.

expect: raised
severity: warning
suspects: none
status: aligned
cause: rank 1; 2 params | inconsistent; models of the ranks | same model; BUG
fix: requires_grad | freeze*
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
if rank == 1 and not TWIN:
    net[0].requires_grad_(False)
model = DistributedDataParallel(net)  # BUG
model(torch.ones(1, 2)).sum().backward()
