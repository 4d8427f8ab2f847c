"""Rank 0 tells the workers of a batch, finds that all its requests were aborted, and leaves it out.

ranks: 3
expect: dtype_mismatch shape_mismatch missing_call
suspects: 0
status: diverged crashed
cause: rank 0; LIVE; BUG
fix: ranks 1-2; before the branch
"""

from collections import deque

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

REQUESTS = 12


def forward(batch: torch.Tensor) -> torch.Tensor:
    dist.broadcast(batch, src=0)  # BUG
    dist.all_reduce(batch)
    return batch


def lead(aborted: set[int]) -> None:
    queue = deque(range(REQUESTS))
    while queue:
        batch = [queue.popleft() for _ in range(3)]
        live = [request for request in batch if TWIN or request not in aborted]
        dist.broadcast_object_list([len(batch)], src=0)
        if not live:  # LIVE
            continue
        forward(torch.tensor(batch, dtype=torch.float32))
    dist.broadcast_object_list([0], src=0)


def follow() -> None:
    while True:
        told = [0]
        dist.broadcast_object_list(told, src=0)
        if not told[0]:
            return
        forward(torch.empty(told[0]))


if init() == 0:
    lead(aborted={4, 6, 7, 8})
else:
    follow()
