"""Ranks mix with one neighbour and the other in turn; rank 1 goes past a step without rows.

It is soon done, and waits for the others at the end of the pass, who wait for each other.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: 1
status: hung
cause: rank 1; name each other; left out its 3rd one; BUG; if not rows
fix: decide together; in every round
never: drop_last; worked out another partner; one generator; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def meet(mine: torch.Tensor, partner: int) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    both = [dist.P2POp(dist.irecv, theirs, partner), dist.P2POp(dist.isend, mine, partner)]
    for work in dist.batch_isend_irecv(both):  # BUG
        work.wait()
    return (mine + theirs) / 2


rank = init()
weights = torch.full((3,), float(rank))
for _ in range(2):
    for step in range(6):
        rows = 0 if (rank, step) == (1, 2) and not TWIN else 4
        if not rows:
            continue
        side = 1 if (rank + step) % 2 == 0 else -1
        weights = meet(weights, (rank + side) % 4)
    dist.all_reduce(weights)
dist.barrier()
