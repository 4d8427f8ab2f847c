"""A chain of pairs made by their members only: who is in two has one more behind it at the second.

ranks: 3
expect: group_mismatch
suspects: none
status: diverged
limit: 20
cause: ranks 0-1; new_group([0, 1]); another name; rank 1 had made new_group([1, 2]); BUG
fix: use_local_synchronization; every rank; for every group; same order
never: rank 0 did not; called none
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


def pair(first: int) -> dist.ProcessGroup:
    ranks, local = [first, first + 1], not TWIN
    made: dist.ProcessGroup = dist.new_group(ranks, TIMEOUT, use_local_synchronization=local)  # BUG
    return made


rank = init()
dist.all_reduce(torch.ones(1))
links = {}
for first in reversed(range(dist.get_world_size() - 1)):
    if TWIN or rank in (first, first + 1):
        links[first] = pair(first)
for first, link in links.items():
    if rank in (first, first + 1):
        dist.all_reduce(torch.ones(2), group=link)
dist.destroy_process_group()
