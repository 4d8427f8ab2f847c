"""Neighbours swap edges in a batch; rank 1 clears its edge, to use it again, before it waits.

expect: unwaited_work
severity: warning
suspects: 1
status: aligned
cause: rank 1; wrote | changed; before; isend | send; BUG
fix: after wait* | copy
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Strip:
    def __init__(self, rank: int) -> None:
        self.peer, self.waits_first = 1 - rank, rank == 0 or TWIN
        self.field = torch.full((6, 8), float(rank))
        self.edge, self.ghost = torch.empty(8), torch.empty(8)

    def start(self) -> list[dist.Work]:
        self.edge.copy_(self.field[-1])
        return dist.batch_isend_irecv(  # BUG
            [
                dist.P2POp(dist.isend, self.edge, self.peer),
                dist.P2POp(dist.irecv, self.ghost, self.peer),
            ]
        )

    def relax(self) -> None:
        self.field *= 0.9
        self.edge *= 0.0  # it is to hold the change of the edge from here on

    def step(self) -> None:
        works = self.start()
        if self.waits_first:
            for work in works:
                work.wait()
            self.relax()
        else:  # to overlap the exchange with the inner rows, it thinks
            self.relax()
            for work in works:
                work.wait()
        self.field[-1] += 0.1 * self.ghost


strip = Strip(init())
for _ in range(4):
    strip.step()
dist.barrier()
