"""Two ranks exchange their counts every so many ticks, and have been given other numbers for it.

The one came there, the other would have in a later tick: which number is right, nobody can tell.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 0; all_gather; BUG; self.tick % self.period; ambiguous
fix: every rank; self.tick % self.period
never: Only rank 0 ever came; Only rank 0 was under
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Router:
    def __init__(self, period: int) -> None:
        self.period = period
        self.tick = 0
        self.counts = torch.zeros(4)

    def exchange(self) -> list[torch.Tensor]:
        everybody = [torch.zeros(4) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, self.counts)  # BUG
        return everybody

    def run(self, ticks: int) -> None:
        while self.tick < ticks:
            self.tick += 1
            self.counts[self.tick % 4] += 1
            dist.all_reduce(torch.ones(2))
            if self.tick % self.period == 0:
                self.exchange()


Router(period=7 if init() and not TWIN else 5).run(ticks=15)
