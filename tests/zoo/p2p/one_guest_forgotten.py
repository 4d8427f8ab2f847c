"""A server gives two of three workers a task in each round, and tells all who; in round 9 one only.

It has sent to the first alone: the other waits, as it was told.

ranks: 4
expect: deadlock missing_call p2p_unmatched
suspects: 0
status: hung diverged
cause: rank 0; sent 2 messages to changing ranks; in this one only 1; BUG
fix: rank 0; list
never: network; rank 3 alone waits for one more; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
task = torch.zeros(3)
for number in range(14):
    order = torch.randperm(3, generator=torch.Generator().manual_seed(number)) + 1
    dist.broadcast(order, src=0)
    guests = sorted(order[:2].tolist())
    if rank == 0:
        for worker in guests if TWIN or number != 9 else guests[:1]:
            dist.send(task, dst=worker)
    elif rank in guests:
        dist.recv(task, src=0)  # BUG
    dist.barrier()  # BUG
