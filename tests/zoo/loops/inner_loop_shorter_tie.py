"""Two ranks: after five equal rounds rank 1 has fewer shards, and begins the next round.

A loop that ended early on one rank is as well one that goes on for too long on the other: a dataset
may have been cut, or the other one not. Nobody may be blamed.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; rank 0; for _shard in; fewer; ambiguous
fix: same length
never: rank 1 did something else; only rank 1; exception; continue
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def shards(rank: int, part: int) -> range:
    return range(1 if (rank, part) == (1, 5) and not TWIN else 3)


rank = init()
for part in range(8):
    dist.broadcast(torch.ones(2), src=0)
    for _shard in shards(rank, part):
        dist.all_reduce(torch.ones(4))  # BUG
