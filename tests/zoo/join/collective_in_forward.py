"""The model sums its activations over the ranks: one that has joined does not run it.

expect: shape_mismatch
suspects: 1
status: diverged
cause: uneven; rank 0; rank 1; 5 batches; 6 | 6th; out of inputs | ran out | no input left;
    all_reduce; BUG; in forward | forward() | the forward | Normalised
fix: same number of batches | throw_on_early_termination
never: out of the `with
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Normalised(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum().detach()
        dist.all_reduce(total)  # BUG
        out: torch.Tensor = self.layer(x / total)
        return out


rank = init()
model = DistributedDataParallel(Normalised())
with model.join():
    for _ in range(5 if TWIN else 5 + rank):
        model(torch.ones(1, 1)).sum().backward()
