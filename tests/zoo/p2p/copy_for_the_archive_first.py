"""The first of three hands the archive its copy before it hands on what the archive waits behind.

ranks: 3
expect: deadlock
suspects: none
status: hung
cause: circle | each other; rank 0's send to rank 2; SENT; waits in recv; meant to go
fix: isend | first; dst=
never: network; finished; left its round
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def hand(batch: torch.Tensor, to: int) -> None:
    dist.send(batch, dst=to)  # SENT


def take(source: int) -> torch.Tensor:
    batch = torch.empty(3, 2)
    dist.recv(batch, src=source)  # BUG
    return batch


def read() -> None:
    batch = torch.ones(3, 2)
    for to in (1, 2) if TWIN else (2, 1):
        hand(batch, to)


def clean() -> None:
    hand(take(0).relu(), 2)


def archive() -> None:
    cleaned = take(1)
    print(float((cleaned - take(0)).sum()), flush=True)


part = (read, clean, archive)[init()]
for _ in range(2):
    part()
dist.barrier()
