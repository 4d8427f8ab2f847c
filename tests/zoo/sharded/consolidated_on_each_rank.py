"""Each rank consolidates the optimizer's state on itself, to write a snapshot of its own.

ranks: 3
expect: root_mismatch
suspects: none
status: diverged
cause: rank 0; ranks 1-2; BUG; different roots; consolidate_state_dict(writer)
fix: same `to`; every rank | all ranks
never: ambiguous; find out
"""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

from tests.zoo.common import TWIN, init


class Snapshots:
    """The state of the optimizer whole, on the ranks that write one."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer, writers: list[int]) -> None:
        self.optimizer, self.writers = optimizer, writers

    def take(self) -> None:
        for writer in self.writers:
            self.optimizer.consolidate_state_dict(writer)  # BUG


rank = init()
parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(4)]
optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=0.1, momentum=0.9)
snapshots = Snapshots(optimizer, list(range(dist.get_world_size())) if TWIN else [rank])
for _ in range(2):
    for parameter in parameters:
        parameter.grad = torch.ones(4)
        dist.all_reduce(parameter.grad)
    optimizer.step()
snapshots.take()
dist.destroy_process_group()
