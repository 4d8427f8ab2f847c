"""Rank 1 passes the group of the evaluation, which it is not in, where the trainers add up.

ranks: 3
expect: missing_call
suspects: 1
status: hung crashed
cause: rank 1; BUG; not in; torch ignored
fix: the group that has the rank as a member
never: uneven inputs; join()
"""

import warnings

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

warnings.simplefilter("ignore", UserWarning)
rank = init()
trainers = dist.new_group([0, 1], timeout=TIMEOUT)
evaluation = dist.new_group([0, 2], timeout=TIMEOUT)
mine = {0: trainers, 1: trainers if TWIN else evaluation, 2: evaluation}[rank]
if rank < 2:
    dist.all_reduce(torch.ones(3), group=mine)  # BUG
if TWIN:
    dist.barrier()
