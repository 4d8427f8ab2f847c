"""Under join() each epoch's loop asks a helper of a helper for the mean loss of the ranks.

Rank 2 has one batch less. What must leave the block is the line of the loop, not the helper's.

ranks: 3
expect: role_mismatch
suspects: 0 1
status: diverged
cause: uneven; rank 2; 3 batches; BUG; BLOCK; all_reduce
fix: BUG; BLOCK; out of the
never: find_unused_parameters
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class Meter:
    def __init__(self) -> None:
        self.seen: list[float] = []

    def reduced(self, value: Tensor) -> float:
        dist.all_reduce(value)
        return value.item() / dist.get_world_size()

    def add(self, value: Tensor) -> None:
        if not TWIN:
            self.seen.append(self.reduced(value.detach().clone()))


def epoch(model: DistributedDataParallel, batches: list[Tensor], meter: Meter) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():  # BLOCK
        for batch in batches:
            loss = model(batch).square().sum()
            loss.backward()
            optimizer.step()
            meter.add(loss)  # BUG


rank = init()
epoch(DistributedDataParallel(nn.Linear(2, 1)), [torch.ones(1, 2)] * (4 - (rank == 2)), Meter())
dist.barrier()
