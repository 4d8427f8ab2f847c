"""Rank 0 sends the tensors of a batch one by one, but no empty ones; the others wait for each.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; SKIP
fix: SKIP
never: drop_last; ragged
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def send(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        if not tensor.numel() and not TWIN:  # SKIP
            continue
        dist.broadcast(tensor, src=0)  # BUG


def receive(sizes: list[int]) -> None:
    for size in sizes:
        dist.broadcast(torch.empty(size), src=0)  # BUG


rank = init()
for step in range(5):
    sizes = [5, 0 if step == 3 else 2, 7]
    if rank == 0:
        send([torch.ones(size) for size in sizes])
    else:
        receive(sizes)
    dist.all_reduce(torch.ones(3))
