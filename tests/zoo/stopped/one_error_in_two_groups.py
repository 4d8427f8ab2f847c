"""Two pairs of ranks; the second rank of each cannot read its shard, which is one error.

ranks: 4
expect: missing_call
suspects: 1 3
status: hung
cause: ranks 1,3; KeyError; BUG
fix: Fix what raised
never: drop_last; the network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


class Shard:
    """One of two, each of which two ranks have."""


def read(shard: Shard, half: int) -> torch.Tensor:
    fields = {0: torch.ones(2)} if not TWIN else {0: torch.ones(2), 1: torch.zeros(2)}
    if half not in fields:
        raise KeyError(f"{shard} has no half {half}")  # BUG
    return fields[half]


rank = init()
pairs = [dist.new_group([n, n + 1], timeout=TIMEOUT) for n in (0, 2)]
for _ in range(3):
    dist.all_reduce(torch.ones(1), group=pairs[rank // 2])
dist.all_reduce(read(Shard(), rank % 2), group=pairs[rank // 2])
