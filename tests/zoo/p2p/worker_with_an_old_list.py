"""Rank 0 hands out files to whom the list of the round names; rank 3 goes by the list before it.

By the calls it looks as if rank 0 had forgotten rank 3: but that alone knows why it receives.

ranks: 4
expect: deadlock missing_call p2p_unmatched
status: hung diverged
cause: rank 0; rank 3; BUG
fix: recv
never: none to rank 3; something to each; nothing leads past
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

COUNTS = (3, 3, 3, 2, 3)

rank = init()
file, counts = torch.zeros(2), dict(enumerate(COUNTS))
if rank == 3 and not TWIN:
    counts[3] = counts[2]
for number in range(len(COUNTS)):
    if rank == 0:
        for worker in range(1, 1 + counts[number]):
            dist.send(file, worker)
    elif rank <= counts[number]:
        dist.recv(file, 0)  # BUG
    dist.all_reduce(file)
