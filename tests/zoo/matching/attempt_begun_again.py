"""Rank 0 loses its connection to the data in the third round, and begins the fit again, alone.

ranks: 3
expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; except ConnectionError; /rank 0 (handled|raised)/; attempt = 1 | once more
fix: before the collectives; except ConnectionError; every rank
never: rank 1 began | rank 2 began
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def batch(rank: int, attempt: int, step: int) -> torch.Tensor:
    if (rank, attempt, step) == (0, 0, 2) and not TWIN:
        raise ConnectionError("the storage hung up")
    return torch.full((3,), float(step))


def fit(rank: int, attempt: int) -> torch.Tensor:
    weights = torch.zeros(7)
    dist.broadcast(weights, src=1)  # BUG
    for step in range(6):
        gradient = batch(rank, attempt, step)
        dist.all_reduce(gradient)  # BUG
    return weights


def patiently(rank: int, attempts: int = 3) -> torch.Tensor:
    for attempt in range(attempts):
        try:
            return fit(rank, attempt)
        except ConnectionError:
            continue
    raise RuntimeError("no attempt came through")


patiently(init())
dist.barrier()
