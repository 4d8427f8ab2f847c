"""Rank 1 finds its part of the residual small enough and leaves the solver; the others exchange on.

ranks: 3
expect: deadlock p2p_unmatched missing_call
suspects: 1
status: hung diverged
cause: rank 1; BUG; out of the loop; while residual > 0.01; ended earlier on rank 1
fix: decide together
never: wrong peer; name each other; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
size = dist.get_world_size()


def hand_round(mine: torch.Tensor) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    sent = dist.isend(mine, (rank + 1) % size)  # BUG
    dist.recv(theirs, (rank - 1) % size)  # BUG
    assert sent is not None
    sent.wait()
    return theirs


def solve() -> torch.Tensor:
    values, residual = torch.ones(4), 1.0
    while residual > 0.01:
        values = (values + hand_round(values)) / 2
        residual *= 0.4 if rank == 1 and not TWIN and residual < 0.1 else 0.6
    return values


parts = [torch.empty(4) for _ in range(size)]
dist.all_gather(parts, solve())  # BUG
