"""A micro-batch of padding only leaves the last stage without a gradient, and it sends none back.

ranks: 3
expect: deadlock p2p_unmatched missing_call
suspects: 2
status: hung diverged
cause: rank 2; BUG; left out; has_gradient
fix: zeros | decide together
never: moving one call; wrong peer; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
last = dist.get_world_size() - 1


def forward(part: int) -> torch.Tensor:
    x = torch.full((4,), float(part))
    if rank:
        dist.recv(x, rank - 1)  # BUG
    if rank < last:
        dist.send(x, rank + 1)
    return x


def backward(x: torch.Tensor, step: int, part: int) -> None:
    has_gradient = (rank, step, part) != (2, 6, 1) or TWIN
    if rank < last:
        dist.recv(x, rank + 1)  # BUG
    if rank and has_gradient:
        dist.send(x, rank - 1)  # BUG


for step in range(9):
    parts = [forward(part) for part in range(2)]
    for number, x in enumerate(parts):
        backward(x, step, number)
