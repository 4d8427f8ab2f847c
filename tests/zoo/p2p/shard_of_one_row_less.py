"""Every worker sends the root its rows; in the fifth round one of four has a row less to send.

ranks: 5
expect: p2p_mismatch
suspects: 3
status: diverged hung
cause: rank 3; send; recv; BUG; ROOT; ranks 1-2,4
fix: pad | shape; rank 3
never: network; rank 0 is; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS, ROWS = 7, 4


def rows(rank: int, number: int) -> torch.Tensor:
    found = torch.full((ROWS, 2), float(rank))
    return found[1:] if (rank, number) == (3, 4) and not TWIN else found


rank = init()
for number in range(ROUNDS):
    if rank:
        dist.send(rows(rank, number), dst=0)  # BUG
        continue
    total = torch.zeros(2)
    for worker in range(1, dist.get_world_size()):
        part = torch.empty(ROWS, 2)
        dist.recv(part, src=worker)  # ROOT
        total += part.sum(0)
dist.barrier()
