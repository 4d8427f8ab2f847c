"""Rank 1 is through and shows its summary in a group of its own; rank 0 has one step more.

Behind the loop it proves nothing that rank 1 alone came to a new line: its loop may have been
too short, or that of rank 0 too long.

ranks: 2
expect: deadlock missing_call
suspects: none
status: hung
cause: rank 1; SHOWN; LOOP
fix: length | steps | same order
never: drop_last; join(); rank 1 alone
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
summary = dist.new_group()
gradient = torch.ones(8)
for _ in range(6 if TWIN or rank == 0 else 5):  # LOOP
    dist.all_reduce(gradient)  # BUG
dist.barrier(group=summary)  # SHOWN
dist.destroy_process_group()
