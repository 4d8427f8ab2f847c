"""Ranks average in pairs, whom with follows from a count of steps; rank 3 does not count a bad one.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: rank 3; partner*; mutual; BUG
fix: same pairs; round
never: turn one of them round; network; batch_isend_irecv cannot block; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def average(weights: torch.Tensor, partner: int) -> torch.Tensor:
    theirs = torch.empty_like(weights)
    both = [dist.P2POp(dist.isend, weights, partner), dist.P2POp(dist.irecv, theirs, partner)]
    for work in dist.batch_isend_irecv(both):  # BUG
        work.wait()
    return (weights + theirs) / 2


rank = init()
weights = torch.full((5,), float(rank))
counted = 0
for step in range(14):
    weights = average(weights, rank ^ (1 + counted % 3))
    loss = float("nan") if rank == 3 and step == 7 else weights.sum().item()
    if loss == loss or TWIN:
        counted += 1
dist.barrier()
