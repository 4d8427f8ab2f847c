"""Rank 1 has no tokens and returns before both exchanges of a step; later it fails over that.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; EARLY; FIRST; returned early | return; ValueError; consequence
fix: EARLY; empty tensor
never: Fix what raised
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

WORLD = 3


def swapped(rows: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(rows)
    dist.all_to_all_single(received, rows)  # FIRST
    return received


def exchange(rows: torch.Tensor) -> torch.Tensor:
    if not rows.any() and not TWIN:  # EARLY
        return torch.empty(0)
    answered = swapped(rows * 2)  # BUG
    return swapped(answered)


def step(number: int, rank: int) -> float:
    rows = torch.zeros(WORLD) if (rank, number) == (1, 3) else torch.full((WORLD,), 1.0 + rank)
    routed = exchange(rows)
    if not len(routed):
        raise ValueError("no token came back")
    return float(routed.sum())


rank = init()
for number in range(5):
    print(step(number, rank))
