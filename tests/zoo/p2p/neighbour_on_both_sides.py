"""In a ring of two each is the other's neighbour on both sides: what goes down meets what goes up.

ranks: 2
expect: p2p_mismatch
suspects: none
status: diverged hung
cause: BUG; the other way round; in other orders; 4 | 6
fix: in one order at both ends; tag
never: ragged; pad it
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def swap(down: torch.Tensor, up: torch.Tensor) -> None:
    above, below = torch.zeros(len(down)), torch.zeros(len(up))
    taken = [
        dist.P2POp(dist.irecv, above, (rank - 1) % world),
        dist.P2POp(dist.irecv, below, (rank + 1) % world),
    ]
    if not TWIN:
        taken.reverse()
    sent = [
        dist.P2POp(dist.isend, down, (rank + 1) % world),
        dist.P2POp(dist.isend, up, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv([*sent, *taken]):  # BUG
        work.wait()


rank = init()
world = dist.get_world_size()
for step in range(4):
    swap(torch.ones(4), torch.ones(4 if step < 2 else 6))
