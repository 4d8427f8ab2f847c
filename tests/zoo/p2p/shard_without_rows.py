"""Workers report three shards each in every step; in step 5 rank 3 has no rows of one, and goes on.

It waits for the totals, for which rank 0 wants that report first, as in every step.

ranks: 5
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: rank 3; BUG; WAITS; rank 3 sent 17; rank 0 asked for 18; ranks 1-2; alone
fix: zeros; how many
never: network; drop_last; rank 0 left; which of them was meant
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

SHARDS, STEPS = 3, 8


def rows(rank: int, step: int, shard: int) -> torch.Tensor:
    empty = (rank, step, shard) == (3, 5, 2)
    return torch.ones(0 if empty else rank + shard, 2)


def report(rank: int, step: int) -> None:
    for shard in range(SHARDS):
        mine = rows(rank, step, shard)
        if not len(mine) and not TWIN:
            continue
        dist.send(mine.sum(0), dst=0)  # BUG


def collected(world: int) -> torch.Tensor:
    totals = torch.zeros(SHARDS, 2)
    for worker in range(1, world):
        for total in totals:
            one = torch.zeros(2)
            dist.recv(one, src=worker)  # BUG
            total += one
    return totals


rank, world = init(), dist.get_world_size()
for step in range(STEPS):
    if rank == 0:
        totals = collected(world)
        for worker in range(1, world):
            dist.send(totals, dst=worker)
    else:
        report(rank, step)
        dist.recv(torch.zeros(SHARDS, 2), src=0)  # WAITS
