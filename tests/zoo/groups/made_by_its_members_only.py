"""The two ranks that write a journal make a group for it; half of the job goes straight on.

ranks: 4
expect: group_mismatch
suspects: none
status: diverged
limit: 20
cause: ranks 2-3 called new_group([2, 3]); JOURNAL; ranks 0-1; BUG
fix: no members; every rank
never: init_process_group
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

WRITERS = [2, 3]


class Journal:
    """Only its writers know of each other."""

    def __init__(self, writers: list[int]) -> None:
        self.group = dist.new_group(writers, timeout=TIMEOUT)  # JOURNAL


rank = init()
if TWIN or rank in WRITERS:
    journal = Journal(WRITERS)
control = dist.new_group(timeout=TIMEOUT)  # BUG
dist.all_reduce(torch.ones(1), group=control)
dist.destroy_process_group()
