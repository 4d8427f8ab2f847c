"""A token goes round; rank 0 gives it to the rank before it, which awaits it of the other.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: rank 0; rank 1; rank 2; SENT; circle | waits in send; meant for rank 1
fix: dst=; isend | first
never: network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
token = torch.zeros(4)
if rank == 0:
    dist.send(token, dst=(rank + 1 if TWIN else rank - 1) % world)  # SENT
    dist.recv(token, src=world - 1)
else:
    dist.recv(token, src=rank - 1)  # BUG
    dist.send(token, dst=(rank + 1) % world)
