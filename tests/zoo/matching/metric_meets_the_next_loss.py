"""Every third step the first of two ranks averages its accuracy, which meets the next loss.

Nothing fails before the end, where the other rank has done its steps already.

expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; ASKED; call 4
fix: ASKED; step % 3 == 2; decide together; every rank
never: ambiguous; loop ended
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
is_logger = rank == 0
for step in range(9):
    loss = torch.rand(1)
    dist.all_reduce(loss)  # LOSS
    if step % 3 == 2 and (is_logger or TWIN):  # ASKED
        accuracy = torch.rand(1)
        dist.all_reduce(accuracy)  # BUG
dist.barrier()
