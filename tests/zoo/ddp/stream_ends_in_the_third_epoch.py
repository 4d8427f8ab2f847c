"""A stream gives rank 2 a batch less in the third epoch; all gather a metric after each epoch.

ranks: 3
expect: shape_mismatch op_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; LOOP; came after 3 | after 11 forward passes; ended earlier
fix: same number of batches
never: either the loop; branch; only rank 2 makes
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def stream(epoch: int) -> Iterator[torch.Tensor]:
    less = rank == 2 and epoch == 2 and not TWIN
    yield from torch.ones(3 if less else 4, 2, 5)


def epoch_metric() -> None:
    dist.all_reduce(torch.ones(3))  # BUG


rank = init()
model = DistributedDataParallel(torch.nn.Linear(5, 5))
for epoch in range(4):
    for batch in stream(epoch):  # LOOP
        model(batch).sum().backward()
    epoch_metric()
