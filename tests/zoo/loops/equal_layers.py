"""Two equal layers in a row, then the loss; in the fourth round rank 2 runs a third layer.

The loop of the job is the round of three calls, gone through three times; nobody has left it
but rank 2.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; all_reduce; BUG; extra | third | 3rd | one more | only rank 2
fix: every rank | all ranks | same length | length
never: /ranks 0-1 left/; gone through 2 times; gone through 11 times
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    layers = 3 if (rank, step) == (2, 3) and not TWIN else 2
    for _ in range(layers):
        dist.all_reduce(torch.ones(4))  # BUG
    dist.broadcast(torch.ones(4), src=0)
