"""Rank 0 logs from a line of its own, which is legal; what fails later is rank 2's doing.

The lines part at call 6, with the same call on all ranks; nothing is shifted by it.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; barrier; BUG; extra | only rank 2 | rank 2 alone
fix: every rank | all ranks
never: since call 6; call 6; rank 0 has one extra; only rank 0; left the loop; loop ended; LOGS
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(8):
    dist.all_reduce(torch.ones(4))
    if step == 2 and rank == 0:
        dist.broadcast(torch.ones(1), src=0)  # LOGS
    else:
        dist.broadcast(torch.ones(1), src=0)
    if step == 5 and (rank == 2 or TWIN):
        dist.barrier()  # BUG
