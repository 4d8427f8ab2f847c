"""Rank 0 announces each request, then refuses one; the others wait for the rest of it.

ranks: 3
expect: shape_mismatch
suspects: 0
status: diverged
cause: rank 0; THEIRS; HANDLER; except ValueError; /rank 0 (handled|raised|caught)/; skipped
fix: before the collectives; HANDLER; every rank
never: other order; sorted; extra broadcast
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def tell(*numbers: int) -> torch.Tensor:
    told = torch.tensor(numbers)
    dist.broadcast(told, src=0)
    return told


def accept(size: int) -> None:
    if size > 5:
        raise ValueError(size)


def answer(size: int) -> None:
    if TWIN:
        accept(size)
    tell(1)  # BUG
    accept(size)
    tell(size, 2 * size)  # REST
    dist.all_reduce(torch.ones(size))


def lead() -> None:
    for size in (3, 4, 3, 6, 4, 2):
        try:
            answer(size)
        except ValueError:  # HANDLER
            print("refused", size)
    tell(0)


def follow() -> None:
    while tell(0):
        size, _ = tell(0, 0).tolist()  # THEIRS
        dist.all_reduce(torch.ones(size))


if init() == 0:
    lead()
else:
    follow()
