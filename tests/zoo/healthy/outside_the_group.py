"""Rank 2 calls on a group that it is not in: torch warns and does nothing.

ranks: 3
expect: nothing
status: aligned
"""

import warnings

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, init

rank = init()
pair = dist.new_group([0, 1], timeout=TIMEOUT)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    dist.all_reduce(torch.ones(1), group=pair)
dist.barrier()
