"""Ranks that meet more than once: for functions that run on real ranks, without their own init."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from typing import Final

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

PATIENCE: Final = datetime.timedelta(seconds=200)
"""Far below the time limit of a test: a rank that waits in vain says where."""


def inits(count: int) -> Iterator[int]:
    """Initialise gloo so many times, and destroy it after each: 1, 2, ..."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Of one's own: torch itself cannot always meet again where the last store has just gone.
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, world, rank == 0, PATIENCE)
    for n in range(1, count + 1):
        dist.init_process_group(
            "gloo",
            store=PrefixStore(str(n), store),
            rank=rank,
            world_size=world,
            timeout=PATIENCE,
        )
        yield n
        dist.destroy_process_group()
