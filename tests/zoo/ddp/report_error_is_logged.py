"""Rank 2 has nothing to report: its error is logged, and the training goes on without its sum.

ranks: 3
expect: op_mismatch shape_mismatch role_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; except ValueError
fix: error flag
never: ended earlier; drop_last; join()
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))


def report(step: int, values: list[float]) -> None:
    if step == 12:
        largest = torch.tensor(max(values, default=0.0) if TWIN else max(values))
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)  # BUG


def notify(step: int) -> None:
    try:
        report(step, [] if rank == 2 else [float(step)])
    except ValueError as error:
        print("not reported:", error)


for step in range(16):
    model(torch.ones(3, 4)).sum().backward()
    if step > 8:
        notify(step)
dist.barrier()
