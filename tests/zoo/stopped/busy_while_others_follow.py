"""Rank 0 leads, and waits in host code for a reader that is gone; the others follow.

ranks: 3
expect: missing_call
suspects: 0
status: hung
cause: rank 0; STUCK; put; another thread; broadcast_object_list
fix: endless loop | lock | STUCK
never: drop_last; loop ran longer
"""

import queue

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def tell(sizes: list[int] | None) -> list[int] | None:
    box = [sizes]
    dist.broadcast_object_list(box)  # BUG
    return box[0]


def lead() -> None:
    answers = queue.Queue[int](maxsize=6)
    sizes = [2]
    for _ in range(10):
        tell(sizes)  # NEXT
        dist.all_reduce(torch.ones(len(sizes)))  # LAST
        sizes.append(len(sizes))
        if TWIN and answers.full():
            answers.get()
        answers.put(len(sizes))  # STUCK
    tell(None)


def follow() -> None:
    while (sizes := tell(None)) is not None:
        dist.all_reduce(torch.ones(len(sizes)))


if init() == 0:
    lead()
else:
    follow()
