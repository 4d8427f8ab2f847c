"""When training is over the first of two ranks alone gathers its report; the other is done.

expect: missing_call
suspects: 0
status: hung
cause: rank 0; all_gather | gather*; BUG; rank == 0 | ASKED
fix: every rank
never: ambiguous; model.join(); drop_last
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


def report() -> None:
    losses = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, torch.ones(1))  # BUG


rank = init()
model = DistributedDataParallel(torch.nn.Linear(3, 3))
for batch in torch.ones(4, 2, 3):
    model(batch).sum().backward()
if rank == 0 or TWIN:  # ASKED
    report()
