"""Rank 2 has not come to the group yet: it makes a call more before it. All ask for the same.

ranks: 3
expect: group_mismatch missing_call
suspects: 2
status: hung diverged
cause: rank 2; BUG
fix: every rank
never: may have led; stands under; Take it out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

MODE = "hybrid"


def version(is_new: bool) -> None:
    if is_new:
        dist.broadcast(torch.ones(1), src=2)  # BUG


def groups() -> object:
    if MODE == "flat":
        return None
    if MODE == "hybrid":
        return dist.new_group([0, 1, 2])
    return None


rank = init()
dist.all_reduce(torch.ones(4))
version(rank == 2 and not TWIN)
group = groups()
dist.all_reduce(torch.ones(4), group=group)
