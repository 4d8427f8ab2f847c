"""Islands pass their best guess on to the next one; who has found nothing better passes on nothing.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 1
status: hung
cause: rank 1; BUG; `if best >= self.passed and not TWIN:`; true on rank 1; send (isend) to rank 2
fix: decide alike | decide together; rank 1; in every iteration; empty tensor | zeros
never: drop_last; network; rank 2 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SEASONS, YEARS = 6, 3


class Island:
    """A population of its own, of which a guess goes to the next island each season."""

    def __init__(self, rank: int, world: int) -> None:
        self.after, self.before = (rank + 1) % world, (rank - 1) % world
        self.best, self.passed = 100.0 + rank, float("inf")

    def pass_on(self) -> list[dist.Work | None]:
        best = self.best
        if best >= self.passed and not TWIN:
            return []
        self.passed = best
        return [dist.isend(torch.tensor([best]), dst=self.after)]  # BUG

    def meet(self) -> None:
        works, guest = self.pass_on(), torch.zeros(1)
        dist.recv(guest, src=self.before)
        for work in works:
            assert work is not None
            work.wait()

    def live(self, season: int, rank: int) -> None:
        if (season, rank) != (4, 1):
            self.best -= 1.0


rank = init()
island = Island(rank, dist.get_world_size())
for season in range(SEASONS):
    for _ in range(YEARS):
        mean = torch.tensor([island.best])
        dist.all_reduce(mean)
    island.live(season, rank)
    island.meet()
dist.barrier()
