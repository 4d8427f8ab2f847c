"""Rank 1 runs out of memory in one forward, catches that and goes on with the next batch.

ranks: 3
expect: missing_call shape_mismatch role_mismatch
suspects: 1
status: hung diverged
cause: rank 1; OutOfMemoryError | out of memory; caught | except* | skip*; RAISES | BUG
fix: every rank | all ranks
never: find_unused_parameters; take part in the loss; unused; fewer batches; ran longer
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        if (rank, step) == (1, 4) and not TWIN:
            raise torch.OutOfMemoryError("out of memory: 2 GiB for one long sample")  # RAISES
        out: torch.Tensor = self.layer(x)
        return out


rank = init()
model = DistributedDataParallel(Net())
for step in range(10):
    try:
        model(torch.ones(1, 1), step).sum().backward()  # BUG
    except torch.OutOfMemoryError:
        print("this batch is too large")
