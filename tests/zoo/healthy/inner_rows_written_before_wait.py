"""Edges are on their way while the inner rows are relaxed in place; then they are waited for.

Edges and rows are views of one field, so that they share a version: the edges stay as they are.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init


class Strip:
    def __init__(self, rank: int) -> None:
        self.peer = 1 - rank
        self.field = torch.full((6, 8), float(rank))
        self.ghost = torch.empty(8)

    def start(self) -> list[dist.Work]:
        return dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, self.field[-1], self.peer),
                dist.P2POp(dist.irecv, self.ghost, self.peer),
            ]
        )

    def step(self) -> None:
        works = self.start()
        self.field[:-1] *= 0.9
        for work in works:
            work.wait()
        self.field[-1] += 0.1 * self.ghost


strip = Strip(init())
for _ in range(4):
    strip.step()
total = torch.zeros(2, 4)
for part in (0, 1):
    work = dist.all_reduce(total[part], async_op=True)
    assert work is not None
    total[1 - part] += 1.0  # the other part of the same tensor
    work.wait()
dist.barrier()
