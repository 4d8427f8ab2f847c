"""A line of ranks that is closed to a ring from step 12 on: each receives before it sends.

Nobody has left the order: what is new for the first rank is the way of them all.

ranks: 4
expect: deadlock p2p_unmatched
suspects: none
status: hung diverged
cause: circle; BUG; rank 0 called no recv from rank 3
fix: batch_isend_irecv; its send before its recv
never: network; kept to one round; rank 0 left; rank 0 has left; zeros
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Line:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.cell = torch.full((1,), float(rank))

    def shift(self, closed: bool) -> None:
        """Everybody's cell goes one place to the right."""
        taken = torch.empty(1)
        left, right = self.rank - 1, self.rank + 1
        if closed and TWIN:
            pair = [
                dist.P2POp(dist.isend, self.cell, right % self.size),
                dist.P2POp(dist.irecv, taken, left % self.size),
            ]
            for work in dist.batch_isend_irecv(pair):
                work.wait()
        else:
            if closed or left >= 0:
                dist.recv(taken, src=left % self.size)  # BUG
            if closed or right < self.size:
                dist.send(self.cell, dst=right % self.size)
        self.cell = taken


rank = init()
line = Line(rank, 4)
for step in range(16):
    line.shift(closed=step >= 12)
    if step % 4 == 3:
        dist.all_reduce(line.cell.clone())
