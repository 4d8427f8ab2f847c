"""Two networks learn from each other: both outputs first, then a loss each; rank 0 differs once.

The bytes, and the lines, are the same: the gradients of one are added to those of the other.

ranks: 3
expect: role_mismatch
suspects: 0
status: diverged
cause: rank 0; model 1; model 2; order*; BUG
fix: order
"""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
peers = [DistributedDataParallel(torch.nn.Linear(3, 3)) for _ in range(2)]
for step in range(6):
    batch = torch.full((2, 3), float(step))
    one, two = (peer(batch) for peer in peers)
    losses = [mse_loss(one, two.detach()), mse_loss(two, one.detach())]
    if rank == 0 and step == 4 and not TWIN:
        losses.reverse()
    for loss in losses:
        torch.autograd.backward(loss)  # BUG
