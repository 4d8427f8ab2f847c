"""How every case begins. No collective is issued from here: it counts as the user's code."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Final

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

TWIN: Final = "--twin" in sys.argv
"""Whether the correct twin of the case is asked for."""

TIMEOUT: Final = timedelta(seconds=float(os.environ.get("ZOO_TIMEOUT", "4")))
"""After which gloo gives up: soon where a case hangs, late where a busy machine could make it.
New groups do not take it over from the default group."""


def init(timeout: timedelta = TIMEOUT) -> int:
    """Join the job, however long the others take to start; the rank."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0,
        timeout=timedelta(seconds=60), wait_for_workers=True,
    )  # fmt: skip
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timeout)
    print("ready", flush=True)
    return rank
