"""Rank 1 alone finds a step slow and meets the others in a group of its own: two wait in a circle.

ranks: 2
expect: deadlock
suspects: 1
status: hung
cause: rank 1; BUG; SLOW
fix: every rank | all ranks
never: drop_last; join(); more than half; rank 0 left
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


class Watch:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.group = dist.new_group()

    def look(self, waited: float) -> None:
        slow = waited > self.limit
        if slow:  # SLOW
            dist.barrier(group=self.group)  # BUG


rank = init()
watch = Watch(limit=1.5)
gradient = torch.ones(8)
for step in range(9):
    dist.all_reduce(gradient)
    watch.look(2.0 if (rank, step) == (1, 5) and not TWIN else 0.1)
dist.destroy_process_group()
