"""Four domains swap their borders one after the other; one of them changes its order on the way.

When the border of 0 and 1 is refined, its owner changes it in place. Rank 1 drops it and enters it
anew, as its last one: now 0 waits for 1, 1 waits for 2, and 2 waits for 0.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 1
status: hung diverged
cause: rank 1; BUG | recv; rank 0; rank 2
fix: order | before | first | same
never: rank 3 left out; wrong peer
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS, CELLS = 6, 5
REFINEMENTS = {3: (0, 1)}
"""Before which step a border gets twice as many points."""


@dataclass
class Border:
    peer: int
    points: int
    scale: float = 1.0


class Domain:
    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.field = torch.full((CELLS,), float(rank))
        self.borders: dict[int, Border] = {}
        for peer in range(world):
            if peer != rank:
                self.adopt(Border(peer, points=2))

    def adopt(self, border: Border) -> None:
        self.borders.pop(border.peer, None)
        self.borders[border.peer] = border

    def refine(self, peer: int) -> None:
        border = self.borders[peer]
        if self.rank < peer or TWIN:
            border.points *= 2
            border.scale /= 2
        else:
            self.adopt(Border(peer, border.points * 2, border.scale / 2))

    def edge(self, border: Border) -> torch.Tensor:
        return self.field[: border.points].clone() * border.scale


class Exchange:
    """The lower rank of a pair speaks first."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def swap(self, border: Border) -> torch.Tensor:
        mine = self.domain.edge(border)
        theirs = torch.empty_like(mine)
        if self.domain.rank < border.peer:
            dist.send(mine, border.peer)  # BUG
            dist.recv(theirs, border.peer)  # BUG
        else:
            dist.recv(theirs, border.peer)
            dist.send(mine, border.peer)
        return theirs

    def all_borders(self) -> list[torch.Tensor]:
        return [self.swap(border) for border in self.domain.borders.values()]  # BUG


class Solver:
    def __init__(self, domain: Domain) -> None:
        self.domain, self.exchange = domain, Exchange(domain)

    def relax(self) -> float:
        before = self.domain.field.clone()
        for ghost in self.exchange.all_borders():
            self.domain.field[: len(ghost)] += 0.1 * (ghost - self.domain.field[: len(ghost)])
        residual = (self.domain.field - before).square().sum()
        dist.all_reduce(residual)
        return float(residual.sqrt())

    def checkpoint(self, step: int) -> None:
        dist.monitored_barrier()
        parts = [torch.zeros(CELLS) for _ in range(4)] if self.domain.rank == 0 else None
        dist.gather(self.domain.field, parts, dst=0)
        if parts is not None:
            print(step, torch.cat(parts).norm().item(), flush=True)


def main() -> None:
    rank = init()
    domain = Domain(rank, dist.get_world_size())
    solver = Solver(domain)
    for step in range(STEPS):
        pair = REFINEMENTS.get(step, ())
        if rank in pair:
            domain.refine(next(peer for peer in pair if peer != rank))
        solver.relax()
        if step % 2:
            solver.checkpoint(step)
    dist.destroy_process_group()


main()
