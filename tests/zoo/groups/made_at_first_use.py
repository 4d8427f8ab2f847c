"""Groups are made by whoever asks for them first; on rank 2 that is its log, for other ones.

ranks: 3
expect: group_mismatch
suspects: 2
status: diverged hung
cause: rank 2; BUG; FIRST; MAKES; different lines; torch counts groups
fix: same order; one place that every rank comes to
never: drop_last; loop ended; ragged
"""

from functools import cache

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init


@cache
def pair(first: int, second: int) -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.new_group([first, second], timeout=TIMEOUT)  # MAKES
    return group


def balance() -> None:
    group = pair(0, 1)  # FIRST
    if rank < 2:
        dist.all_reduce(torch.ones(1), group=group)


def log_tail() -> None:
    group = pair(1, 2)  # BUG
    print("peers", dist.get_rank(group))


rank = init()
if rank == 2 and not TWIN:
    log_tail()
for _ in range(3):
    balance()
log_tail()
