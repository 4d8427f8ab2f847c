"""By the plan that rank 0 gave all, the border of 1 and 2 comes first from step 4 on, of both.

Rank 1 follows the plan. Rank 2 still goes by the first line of it.

ranks: 4
expect: deadlock p2p_unmatched
suspects: none
status: hung diverged
cause: rank 1; rank 2; send; `if rank in first:`
fix: rank 0 | rank 1 | batch_isend_irecv
never: let rank 1 go through
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
plan = torch.zeros(7, 2, dtype=torch.int64)
if rank == 0:
    plan[4:] = torch.tensor([1, 2])
dist.broadcast(plan, src=0)
for step in range(7):
    first = plan[0 if rank == 2 and not TWIN else step].tolist()  # BUG
    peers = [peer for peer in range(4) if peer != rank]
    if rank in first:
        peers.sort(key=lambda peer: peer not in first)
    for peer in peers:
        mine, theirs = torch.ones(2), torch.empty(2)
        if rank < peer:
            dist.send(mine, peer)  # BUG
            dist.recv(theirs, peer)
        else:
            dist.recv(theirs, peer)
            dist.send(mine, peer)
    dist.all_reduce(torch.ones(1))
