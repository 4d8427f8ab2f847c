"""At the end rank 2 hands its sum to rank 1 before it lets rank 0 go, which rank 1 awaits.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: circle | each other; rank 2's send to rank 1; rank 0 waits; meant for | meant to go; FIRST
fix: isend | first; dst=
never: network; left its round
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
mine, theirs = torch.ones(6), torch.empty(6)
for _ in range(5):
    if rank == 0:
        dist.send(mine, dst=1)
        dist.recv(theirs, src=2)
    elif rank == 1:
        dist.recv(theirs, src=0)
        dist.recv(theirs, src=2)
    else:
        dist.send(mine, dst=1)
        dist.send(mine, dst=0)

go = torch.zeros(6)
if rank == 0:
    dist.recv(go, src=2)  # BUG
    dist.send(mine, dst=1)
elif rank == 1:
    dist.recv(theirs, src=0)  # BUG
    dist.recv(theirs, src=2)
elif TWIN:
    dist.send(go, dst=0)
    dist.send(mine, dst=1)
else:
    dist.send(mine, dst=1)  # FIRST
    dist.send(go, dst=0)
