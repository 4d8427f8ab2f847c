"""Rank 0 hands over its optimizer's state with the weights; rank 1 asks for the weights alone.

Momentum is there from the third step on. What does not fit in size then is no tensor of another
size, but another tensor.

expect: p2p_mismatch
suspects: none
status: diverged hung
cause: rank 0; rank 1; SENT; BUG; float32[3]; 1 message later; 1 send too many
fix: same list; same order
never: pad it; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
weights = [torch.ones(3, 5), torch.ones(6), torch.ones(2, 7)]
momentum: list[torch.Tensor] = []
for step in range(6):
    if step == 3:
        momentum = [torch.ones(3)]
    if rank == 0:
        for tensor in [*momentum, *weights]:
            dist.send(tensor, dst=1)  # SENT
    else:
        for tensor in [*momentum, *weights] if TWIN else weights:
            dist.recv(tensor, src=0)  # BUG
    if TWIN:
        dist.barrier()
