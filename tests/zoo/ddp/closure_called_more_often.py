"""The line search calls the closure as often as each rank's own loss asks for: once more on rank 0.

ranks: 2
expect: op_mismatch shape_mismatch role_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; out of the loop | left the loop; for _ in range; ambiguous
fix: equally often
never: drop_last
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))


def closure() -> None:
    model(torch.ones(3, 4)).sum().backward()  # BUG


def search(closure: Callable[[], None], times: int) -> None:
    for _ in range(times):
        closure()


def error() -> None:
    dist.all_reduce(torch.zeros(()))  # BUG


for epoch in range(5):
    search(closure, 4 + (not TWIN and (rank, epoch) == (0, 4)))
    error()
