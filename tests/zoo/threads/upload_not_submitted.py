"""A pool uploads in a group of its own, by the script's own function; rank 1 submits it less often.

What decided it stands where the work is submitted, not where the call is made.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; all_reduce; BUG; SUBMIT; thread
fix: every rank; SUBMIT
"""

from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def upload(step: int) -> None:
    done = torch.tensor([step])
    dist.all_reduce(done, group=uploaders)  # BUG


def keep(step: int, loss: float, worst: float) -> Future[None] | None:
    if loss > worst:
        return pool.submit(upload, step)  # SUBMIT
    return None


rank = init()
uploaders = dist.new_group()
pool = ThreadPoolExecutor(1)
for step in range(6):
    dist.all_reduce(torch.ones(3))
    kept = keep(step, loss=0.5 if (rank, step) == (1, 4) and not TWIN else 2.0, worst=1.0)
    if kept is not None:
        kept.result()
