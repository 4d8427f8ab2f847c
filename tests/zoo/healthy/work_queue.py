"""Rank 0 gives work to whoever asks, so that every rank takes another number of pieces.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

PIECES = 7
rank = init()
piece = torch.empty(1)
if rank == 0:
    for number in range(PIECES + 2):
        asking = dist.recv(torch.empty(1))
        dist.send(torch.tensor([float(number if number < PIECES else -1)]), dst=asking)
else:
    while True:
        dist.send(torch.ones(1), dst=0)
        dist.recv(piece, src=0)
        if piece.item() < 0:
            break
        sum(range(20000 * rank))
dist.barrier()
