"""Rank 0 alone finds a folder of an earlier run, and returns before the barrier of a save.

All come to the save in every second step: that decides nothing.

ranks: 3
expect: op_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; EARLY
fix: EARLY
never: set the ranks' turns apart; count them alike
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Saver:
    def __init__(self, there: set[int]) -> None:
        self.there = there

    def save(self, step: int) -> None:
        if step in self.there:  # EARLY
            return
        self.there.add(step)
        dist.barrier()  # BUG


rank = init()
saver = Saver({4} if rank == 0 and not TWIN else set())
for step in range(8):
    dist.all_reduce(torch.ones(4))
    if step % 2 == 0:
        saver.save(step)
