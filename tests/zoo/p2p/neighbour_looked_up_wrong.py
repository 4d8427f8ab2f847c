"""Rank 1 exchanges its border with rank 3 instead of rank 2, and the others wait in a collective.

That ranks wait for each other comes of it.

ranks: 4
expect: p2p_unmatched
suspects: none
status: hung diverged
cause: rank 1; rank 2; rank 3; BUG
fix: peer
never: network; same number of iterations
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def exchange(lower: int | None, upper: int | None) -> None:
    works = []
    for peer, tag in ((lower, 0), (upper, 1)):
        if peer is not None:
            works.append(dist.isend(torch.ones(4), peer, tag=tag))  # BUG
            works.append(dist.irecv(torch.empty(4), peer, tag=1 - tag))
    for work in works:
        assert work is not None
        work.wait()


rank = init()
for step in range(5):
    upper = rank + 1 if rank < 3 else None
    if (rank, step) == (1, 3) and not TWIN:
        upper = 3
    exchange(rank - 1 if rank else None, upper)
    dist.all_reduce(torch.ones(2))
