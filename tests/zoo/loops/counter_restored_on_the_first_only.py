"""A checkpoint is loaded on the first rank only: its weights are broadcast, its counter is not.

The average of the weights is shared in each third update, by that counter.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; self.updates % 3 == 0; LOADED
fix: LOADED; every rank; /broadcast/
never: all_reduce `self.updates; file system
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

UPDATES = 5


class Average:
    def __init__(self, weights: torch.Tensor) -> None:
        self.weights, self.updates = weights.clone(), 0

    def load(self, state: dict[str, int]) -> None:
        self.updates = state["updates"]

    def update(self, weights: torch.Tensor) -> None:
        self.updates += 1
        self.weights.lerp_(weights, 0.1)
        if self.updates % 3 == 0:
            dist.broadcast(self.weights, src=0)  # BUG


rank = init()
weights = torch.zeros(4, 3)
average = Average(weights)
if rank == 0 or TWIN:
    weights.fill_(1)
    average.load({"updates": UPDATES})  # LOADED
dist.broadcast(weights, src=0)
for _ in range(6):
    gradient = torch.ones(4, 3)
    dist.all_reduce(gradient)
    weights -= 0.01 * gradient
    average.update(weights)
