"""Rank 0 tells each worker which reports it wants, and forgets in step 5 that it told rank 3 so.

By the calls alone rank 3 left out what the others sent; but it had been told.

ranks: 4
expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 3; BUG; WAITS; which of them was meant
fix: every round
never: network; drop_last; alone left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SHARDS, STEPS = 3, 8


def order() -> list[bool]:
    buffer = torch.zeros(SHARDS)
    dist.recv(buffer, src=0)  # WAITS
    return [bool(one) for one in buffer]


def report() -> None:
    wanted = order()
    for shard in range(SHARDS):
        if not wanted[shard]:
            continue
        dist.send(torch.ones(2), dst=0)  # BUG


rank, world = init(), dist.get_world_size()
for step in range(STEPS):
    if rank == 0:
        for worker in range(1, world):
            wanted = torch.ones(SHARDS)
            wanted[2] = float(TWIN or (worker, step) != (3, 5))
            dist.send(wanted, dst=worker)
        for worker in range(1, world):
            for _ in range(SHARDS):
                dist.recv(torch.zeros(2), src=worker)  # BUG
    else:
        report()
