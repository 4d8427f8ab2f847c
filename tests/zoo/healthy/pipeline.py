"""Three stages pass activations forth and gradients back, and reduce a loss at the end.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
for _ in range(4):
    activation, gradient = torch.ones(4), torch.ones(4)
    if rank > 0:
        dist.recv(activation, src=rank - 1)
    if rank < 2:
        dist.send(activation, dst=rank + 1)
        dist.recv(gradient, src=rank + 1)
    if rank > 0:
        dist.send(gradient, dst=rank - 1)
dist.all_reduce(torch.ones(1))
