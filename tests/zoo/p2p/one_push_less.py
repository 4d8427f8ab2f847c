"""A server takes one message of each worker in any order; in step 9 rank 3 has nothing to send.

It goes on to wait for the answer, as all others do.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: BUG; rank 3 sent 9; rank 1 sent 10; rank 2 sent 10
fix: zeros | empty
never: network; rank 0 left; rank 1 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
table = torch.zeros(4)
for step in range(14):
    if rank == 0:
        for _ in range(3):
            dist.recv(torch.zeros(4))
        for worker in (1, 2, 3):
            dist.send(table, dst=worker)
    else:
        if TWIN or (rank, step) != (3, 9):
            dist.send(table + step, dst=0)  # BUG
        dist.recv(table, src=0)  # BUG
