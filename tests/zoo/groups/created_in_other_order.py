"""Rank 2 creates two groups in the other order: gloo connects it to the wrong partners, silently.

ranks: 3
expect: group_mismatch
suspects: 2
status: diverged
cause: rank 2; new_group; [1, 2]; [0, 2]; order; BUG
fix: same order
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
members = [[0, 2], [1, 2]]
if rank == 2 and not TWIN:
    members.reverse()
groups = [dist.new_group(ranks, timeout=TIMEOUT) for ranks in members]  # BUG
for group in groups:
    if rank in dist.get_process_group_ranks(group):
        dist.all_reduce(torch.ones(1), group=group)
