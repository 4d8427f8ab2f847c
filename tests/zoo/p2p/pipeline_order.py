"""A pipeline of three stages whose last stage sends gradients back before it has the activations.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 1; rank 2; recv; each other; BUG
fix: send before* | before its recv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
activation, gradient = torch.ones(4), torch.ones(4)
if rank == 0:
    dist.send(activation, dst=1)
    dist.recv(gradient, src=1)
elif rank == 1:
    dist.recv(activation, src=0)
    if TWIN:
        dist.send(activation, dst=2)
        dist.recv(gradient, src=2)
    else:
        dist.recv(gradient, src=2)  # BUG
        dist.send(activation, dst=2)
    dist.send(gradient, dst=0)
else:
    dist.recv(activation, src=1)
    dist.send(gradient, dst=1)
