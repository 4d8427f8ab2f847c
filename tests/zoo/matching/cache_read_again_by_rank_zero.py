"""Two barriers around a cache: the others wait at the first, rank 0 at the second. It alone scores.

In training every rank reads the cache, so the two barriers meet. In the evaluation none comes.

ranks: 2
expect: missing_call
suspects: 0
status: hung
cause: rank 0; SCORE; barrier; BUG
fix: Run; on every rank; OTHERS | neither of the two
never: take it out of
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

cache: dict[str, torch.Tensor] = {}


def read(split: str, rank: int) -> torch.Tensor:
    if rank != 0:
        dist.barrier()  # OTHERS
    features = cache.setdefault(split, torch.ones(4))
    if rank == 0:
        dist.barrier()  # BUG
    return features


def score(rank: int) -> float:
    return float(read("dev", rank).mean())


rank = init()
for _ in range(3):
    gradient = read("train", rank).clone()
    dist.all_reduce(gradient)
if TWIN or rank == 0:  # SCORE
    print(score(rank))
dist.destroy_process_group()
