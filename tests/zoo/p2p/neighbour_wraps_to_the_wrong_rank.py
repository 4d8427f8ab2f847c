"""A ring of replicas is closed anew each epoch; once the last rank wraps to rank 1.

ranks: 3
expect: deadlock
suspects: 2
status: hung
cause: BUG; TAKES; rank 2; rank 0 awaits
fix: rank 2 pass dst=0
never: network; too early; all_reduce; other order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

EPOCHS, STEPS = 3, 2


class Ring:
    """Each replica gives its weights to the next one, and mixes in those of the previous one."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.after = self.before = rank

    def close(self, epoch: int) -> None:
        first = 0 if TWIN or epoch < 1 else 1
        self.after = self.rank + 1 if self.rank + 1 < self.world else first
        self.before = (self.rank - 1) % self.world

    def mix(self, weights: torch.Tensor) -> torch.Tensor:
        theirs = torch.empty_like(weights)
        sending = dist.isend(weights, self.after)  # BUG
        dist.recv(theirs, self.before)  # TAKES
        sending.wait()  # type: ignore[union-attr]
        return (weights + theirs) / 2


def main() -> None:
    rank = init()
    ring, weights = Ring(rank, dist.get_world_size()), torch.rand(8)
    for epoch in range(EPOCHS):
        ring.close(epoch)
        for _ in range(STEPS):
            weights = ring.mix(weights)
        dist.all_reduce(weights)
    dist.destroy_process_group()


main()
