"""Rank 1 finds the data's mean in a cache that an earlier run left, and does not ask the others.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; if self.cached is not None; with a return; leads past
fix: all ranks decide together; broadcasts | all_reduce
never: do not show what decided; 'group_size'
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Normaliser:
    """Knows mean and spread of the whole data set."""

    def __init__(self, cached: torch.Tensor | None) -> None:
        self.cached = cached

    def fit(self, shard: torch.Tensor) -> torch.Tensor:
        group_size = dist.get_world_size()
        if group_size == 1:
            return shard.mean()
        if self.cached is not None:
            return self.cached
        moments = torch.stack([shard.sum(), shard.square().sum(), torch.tensor(float(len(shard)))])
        dist.all_reduce(moments)  # BUG
        return moments[0] / moments[2]


rank = init()
shard = torch.arange(8.0) + rank
kept = torch.tensor(4.5) if rank == 1 and not TWIN else None
mean = Normaliser(kept).fit(shard)
weights = torch.zeros(5)
dist.broadcast(weights, src=0)  # BUG
