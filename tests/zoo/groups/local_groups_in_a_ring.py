"""Each of three ranks makes the group with its right neighbour first, by itself and that one alone.

ranks: 3
expect: deadlock group_mismatch
suspects: none
status: hung diverged
cause: BUG; new_group([0, 1]); new_group([1, 2]); new_group([0, 2]); rank 0 waits; circle
fix: one order; every rank; sorted
never: drop_last; rank 1 never came
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def joined(*ranks: int) -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.new_group(  # BUG
        sorted(ranks), timeout=TIMEOUT, use_local_synchronization=not TWIN
    )
    return group


rank, world = init(), dist.get_world_size()
loss = torch.ones(1)
for _ in range(3):
    dist.all_reduce(loss)
if TWIN:
    groups = [joined(one, (one + 1) % world) for one in range(world)]
else:
    groups = [joined(rank, (rank + 1) % world), joined((rank - 1) % world, rank)]
for group in groups:
    if rank in dist.get_process_group_ranks(group):
        dist.all_reduce(loss, group=group)
