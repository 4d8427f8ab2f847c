"""Ranks tell each other how much each sends, and rank 2 sorts what it was told in one round.

ranks: 4
expect: split_mismatch
suspects: 2
status: diverged
cause: rank 2; BUG; as many elements in all; 13; another order
fix: unchanged
never: over a capacity; rank 0 changed; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROUNDS = ((4, 4, 4, 4), (3, 3, 3, 3), (3, 5, 1, 4), (2, 2, 2, 2))
"""How much everybody sends to each, from the one behind it on."""


def parcels(mine: list[int]) -> torch.Tensor:
    told = torch.empty(len(mine), dtype=torch.int64)
    dist.all_to_all_single(told, torch.tensor(mine))  # COUNTS
    theirs = told.tolist()
    if rank == 2 and not TWIN:
        theirs.sort()
    got = torch.empty(sum(theirs))
    dist.all_to_all_single(got, torch.ones(sum(mine)), theirs, mine)  # BUG
    return got


rank, world = init(), dist.get_world_size()
for counts in ROUNDS:
    parcels([counts[(to - rank) % world] for to in range(world)])
