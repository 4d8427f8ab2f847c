"""Two ranks whose logs have lost their beginning, where both had broadcast: nobody is alone in it.

Rank 0 alone broadcasts in what is left of the logs. Nobody may be blamed.

expect: op_mismatch
suspects: none
status: diverged
limit: 90
env: COLLECTRACE_MAX_BYTES=300000
cause: rank 0; broadcast; rank 1; all_reduce; BUG
fix: every rank | all ranks
never: only rank 0; rank 0 alone; never made; had ever
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def share() -> None:
    dist.broadcast(torch.ones(2), src=0)  # BUG


rank = init()
for step in range(4001):
    if step == 0 or (step == 4000 and (rank == 0 or TWIN)):
        share()
    dist.all_reduce(torch.ones(1))
