"""A stage of a pipeline finds its own gradients too large, and leaves out the sum of all norms.

The third stage is in the next step, and waits for the second, which waits in that sum.

ranks: 4
expect: deadlock missing_call
suspects: 2
status: hung diverged
cause: rank 2; all_reduce; OVERFLOW | BUG
fix: all ranks | every rank | rank 2
never: rank 1 left; rank 3 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STEPS, LARGEST = 6, 100.0


class Stage:
    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.last = rank, world - 1
        self.gradient = torch.zeros(8)

    def forward_backward(self, step: int) -> None:
        x = torch.full((8,), 1.0 + step)
        if self.rank:
            dist.recv(x, self.rank - 1)
        if self.rank < self.last:
            dist.send(x + self.rank, self.rank + 1)
        self.gradient = x * (1000.0 if (self.rank, step) == (2, 2) else 1.0)

    def overflowed(self) -> bool:
        return bool(self.gradient.max() > LARGEST)

    def update(self) -> None:
        if self.overflowed() and not TWIN:
            return  # OVERFLOW
        norm = self.gradient.square().sum()
        dist.all_reduce(norm)  # BUG
        self.gradient /= norm.sqrt()


stage = Stage(init(), dist.get_world_size())
for step in range(STEPS):
    stage.forward_backward(step)
    stage.update()
dist.destroy_process_group()
