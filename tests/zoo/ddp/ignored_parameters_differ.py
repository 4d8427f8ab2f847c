"""Rank 1 takes a layer out of DDP's hands; every constructor finds that the numbers differ.

expect: raised
severity: warning
suspects: none
status: aligned
cause: rank 1; 2 params | inconsistent; models of the ranks | same model; BUG
fix: same parameters | ignore*
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
if rank == 1 or TWIN:
    # As DDP._set_params_and_buffers_to_ignore_for_model does.
    net._ddp_params_and_buffers_to_ignore = ["0.weight", "0.bias"]  # type: ignore[assignment]
model = DistributedDataParallel(net)  # BUG
model(torch.ones(1, 2)).sum().backward()
