"""Two ranks want the lock of a cache while its holder meets them in a barrier.

ranks: 3
expect: deadlock
suspects: none
status: hung
limit: 10
cause: file lock; barrier; LOCK
fix: release
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # LOCK
        yield


def load(path: Path) -> torch.Tensor:
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            torch.save(torch.arange(8.0), path)
        if not TWIN:
            dist.barrier()  # BUG
    if TWIN:
        dist.barrier()
    tokens: torch.Tensor = torch.load(path)
    return tokens


rank = init(timedelta(seconds=60))
loaded = load(Path(os.environ["COLLECTRACE_LOG_DIR"]).with_name("tokens.pt"))
dist.all_reduce(loaded)
