"""Rank 2 is no member and does not call new_group, which every rank must: names go out of step.

ranks: 3
expect: group_mismatch
suspects: 2
status: diverged hung
cause: rank 2; new_group; [0, 1]; BUG; left out | did not | never | skipped | called none
fix: every rank | all ranks
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
if rank != 2 or TWIN:
    dist.new_group([0, 1], timeout=TIMEOUT)  # BUG
everybody = dist.new_group([0, 1, 2], timeout=TIMEOUT)
dist.all_reduce(torch.ones(1), group=everybody)
