"""A domain refines its mesh in step 3 and widens its halo alone; its neighbours still take one row.

ranks: 4
expect: p2p_mismatch
suspects: 2
status: diverged
cause: BUG; rank 2 is at one end of every message; rank 2 alone has come to another size
fix: as it did before; same step
never: drop_last; never sent; wrong peer; lost a connection
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

COLUMNS = 8
ROWS = 6
STEPS = 6
STEEP = {(2, 3): 5.0}
"""Largest gradient found in the share of a rank, in a step; elsewhere 1.0."""


class Domain:
    """A strip of rows of the field, with the rows of its neighbours around it."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.above = rank - 1 if rank > 0 else None
        self.below = rank + 1 if rank < world - 1 else None
        self.halo = 1
        self.field = torch.full((ROWS, COLUMNS), float(rank))

    def adapt(self, step: int) -> None:
        """A wider stencil where the field is steep."""
        steepest = torch.tensor(STEEP.get((self.rank, step), 1.0))
        if TWIN:
            dist.all_reduce(steepest, op=dist.ReduceOp.MAX)
        if steepest > 4.0:
            self.halo = 2

    def exchange(self) -> dict[int, torch.Tensor]:
        ops, taken = [], {}
        for peer, edge in (
            (self.above, self.field[: self.halo]),
            (self.below, self.field[-self.halo :]),
        ):
            if peer is None:
                continue
            taken[peer] = torch.empty(self.halo, COLUMNS)
            ops.append(dist.P2POp(dist.isend, edge.contiguous(), peer))
            ops.append(dist.P2POp(dist.irecv, taken[peer], peer))
        for work in dist.batch_isend_irecv(ops):  # BUG
            work.wait()
        return taken

    def relax(self, ghosts: dict[int, torch.Tensor]) -> torch.Tensor:
        rows = [self.field]
        if self.above is not None:
            rows.insert(0, ghosts[self.above])
        if self.below is not None:
            rows.append(ghosts[self.below])
        padded = torch.cat(rows)
        change = (padded.mean() - self.field).abs().max()
        self.field = 0.9 * self.field + 0.1 * padded.mean()
        return change


def main() -> None:
    rank = init()
    domain = Domain(rank, dist.get_world_size())
    for step in range(STEPS):
        domain.adapt(step)
        change = domain.relax(domain.exchange())
        dist.all_reduce(change, op=dist.ReduceOp.MAX)
    print("relaxed", float(change))
    dist.destroy_process_group()


main()
