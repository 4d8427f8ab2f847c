"""The first stage sends the rest of a batch as a fifth chunk; the next stages round down to four.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; ended on rank 1 | fewer iterations; self.count | self.chunks; BUG
fix: same number of iterations
never: earlier iterations; depends on each rank's data
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

BATCH, SIZE = (20 if TWIN else 18), 4


class Stage:
    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.is_first, self.is_last = rank, rank == 0, rank == world - 1
        self.count = BATCH // SIZE

    def chunks(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        if self.is_first:
            yield from torch.split(x, SIZE)
            return
        for _ in range(self.count):
            chunk = torch.empty(SIZE)
            dist.recv(chunk, src=self.rank - 1)  # BUG
            yield chunk

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        done = []
        for chunk in self.chunks(x):
            if not self.is_last:
                dist.send(chunk, dst=self.rank + 1)
            done.append(chunk)
        return done

    def backward(self, done: list[torch.Tensor]) -> None:
        for chunk in done:
            if not self.is_last:
                dist.recv(torch.empty_like(chunk), src=self.rank + 1)
            if not self.is_first:
                dist.send(chunk, dst=self.rank - 1)


stage = Stage(init(), dist.get_world_size())
for _ in range(3):
    stage.backward(stage.forward(torch.ones(BATCH)))
dist.destroy_process_group()
