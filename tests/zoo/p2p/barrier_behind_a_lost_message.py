"""Rank 0 keeps a message back; rank 1 gives up waiting for it, and enters the barrier all the same.

By then all ranks have reached the barrier, and it cannot complete: their connections are broken.

ranks: 3
expect: p2p_unmatched
suspects: none
status: hung diverged
cause: rank 0; rank 1; recv; BUG
fix: send
never: network; driver; a device that hangs
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def exchange(rank: int, step: int) -> None:
    if rank == 0 and (step < 3 or TWIN):
        dist.send(torch.ones(4), dst=1)
    elif rank == 1:
        dist.recv(torch.empty(4), src=0)  # BUG


rank = init()
for step in range(5):
    try:
        exchange(rank, step)
    finally:
        dist.barrier()
