"""Rank 0's log line has made a meter that nobody else has: it is summed at the end of the epoch.

ranks: 3
expect: op_mismatch shape_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; further turn; for name in meters
fix: same things on every rank
never: drop_last; join(); ended earlier
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))


def share(meters: dict[str, float]) -> None:
    for name in meters:
        dist.all_reduce(torch.tensor(meters[name]))  # BUG
        dist.barrier()  # BUG


def epoch(number: int) -> None:
    meters: dict[str, float] = {"loss": 0.0, "rate": 0.1}
    for _ in range(6):
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        meters["loss"] += loss.item()
    if rank == 0 and number == 1:
        print(meters.get("norm", 0.0) if TWIN else meters.setdefault("norm", 0.0))
    share(meters)


for number in range(3):
    epoch(number)
