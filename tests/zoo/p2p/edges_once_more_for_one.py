"""Smoothing on a line of cells: a rank whose own part changes fast exchanges its edges once more.

The others go on to the sum of what changed, behind which their next exchange comes.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: 1
status: hung
cause: rank 1; BUG; SUM; ranks 0,2-3; which no rank had ever
fix: decide together | on every rank
never: drop_last; network; rank 0 left; rank 0 is to blame
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

CELLS, STEPS = 6, 8


class Line:
    """A part of the cells, with one of each neighbour's around it."""

    def __init__(self, rank: int, world: int) -> None:
        self.sides = {peer: at for peer, at in ((rank - 1, 0), (rank + 1, -1)) if 0 <= peer < world}
        self.cells = torch.full((CELLS + 2,), float(rank))

    def edges(self) -> None:
        works, parts = [], {}
        for peer, at in self.sides.items():
            parts[at] = torch.zeros(1)
            works.append(dist.isend(self.cells[1:2] if at == 0 else self.cells[-2:-1], peer))
            works.append(dist.irecv(parts[at], peer))
        for work in works:
            assert work is not None
            work.wait()
        for at, part in parts.items():
            self.cells[at] = part[0]

    def smooth(self) -> torch.Tensor:
        before = self.cells[1:-1].clone()
        self.cells[1:-1] = (self.cells[:-2] + before + self.cells[2:]) / 3
        return (self.cells[1:-1] - before).abs().sum()


rank = init()
line = Line(rank, dist.get_world_size())
for step in range(STEPS):
    line.edges()
    if step == 5 and rank == 1 and not TWIN:
        line.cells[3] += 9.0  # a source in its cells
    change = line.smooth()
    if change > 1.5:
        line.edges()  # BUG
        change = line.smooth()
    dist.all_reduce(change)  # SUM
dist.barrier()
