"""Three equal layers in a row, then the loss; in the fourth round rank 2 runs only two.

ranks: 3
expect: op_mismatch
suspects: 2
status: diverged
cause: rank 2; all_reduce; BUG; left out | did not | skip* | one less | 2 of 3 | third | 3rd
fix: every rank | all ranks | same length | length
never: gone through 2 times; gone through 3 times; /ranks 0-1 (left|have)/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    layers = 2 if (rank, step) == (2, 3) and not TWIN else 3
    for _ in range(layers):
        dist.all_reduce(torch.ones(4))  # BUG
    dist.broadcast(torch.ones(4), src=0)
