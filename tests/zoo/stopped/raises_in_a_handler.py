"""Rank 1 left its timer running where it had nothing to check; it goes off in a later turn.

The line that raises is the handler's: what it broke into is where its function was called.

ranks: 3
expect: missing_call
suspects: 1
status: hung crashed
cause: rank 1; BUG; RAISE; TimeoutError: too long
fix: what raised
never: uneven inputs; drop_last
"""

import signal
from typing import NoReturn

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def expired(_signum: int, _frame: object) -> NoReturn:
    raise TimeoutError("too long")  # RAISE


def check(rank: int, turn: int) -> None:
    signal.setitimer(signal.ITIMER_REAL, 3600)
    if (rank, turn) == (1, 2) and not TWIN:
        return
    signal.setitimer(signal.ITIMER_REAL, 0)


def produce() -> torch.Tensor:
    part = torch.ones(1)
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.raise_signal(signal.SIGALRM)  # BUG
    return part


rank = init()
signal.signal(signal.SIGALRM, expired)
for turn in range(5):
    part = produce()
    dist.all_reduce(part)
    check(rank, turn)
dist.destroy_process_group()
