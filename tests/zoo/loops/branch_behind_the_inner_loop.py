"""Rank 0 reports behind the loop over the parts: nobody has left that loop too early.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; /if step == 4 and is_reporter/
fix: every rank | none
never: out of the loop; ended earlier; same length; left the loop
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
is_reporter = rank == 0
for step in range(8):
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    if step == 4 and is_reporter and not TWIN:
        dist.barrier()  # BUG
dist.barrier()
