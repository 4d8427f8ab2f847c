"""Neighbours on a ring exchange their parts; in step 17 rank 1 has nothing new and does not.

It goes on to the loss, which all ranks come to behind the exchange.

ranks: 3
expect: deadlock missing_call p2p_unmatched
suspects: 1
status: hung diverged
cause: rank 1; if changed; SEND; BUG; kept to one round
fix: all ranks decide; zeros | empty
never: network; rank 0 left; rank 2 left; batch_isend_irecv; get_global_rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def pass_on(part: torch.Tensor, rank: int) -> torch.Tensor:
    """To the right, around the ring; the first rank receives before it sends."""
    taken = torch.empty_like(part)
    right, left = (rank + 1) % 3, (rank - 1) % 3
    if rank == 0:
        dist.recv(taken, src=left)
        dist.send(part, dst=right)
    else:
        dist.send(part, dst=right)  # SEND
        dist.recv(taken, src=left)
    return taken


def gossip(rank: int, steps: int) -> None:
    part = torch.full((4,), float(rank))
    for step in range(steps):
        changed = TWIN or (rank, step) != (1, 17)
        for _ in range(2):
            if changed:
                part = (part + pass_on(part, rank)) / 2
        loss = part.square().mean()
        dist.all_reduce(loss)  # BUG


gossip(init(), 24)
