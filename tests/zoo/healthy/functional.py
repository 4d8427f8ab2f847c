"""Functional collectives, which torch.compile uses, beside the ordinary ones.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from tests.zoo.common import init

rank = init()
group = dist.group.WORLD
assert group is not None
total = funcol.all_reduce(torch.ones(4), "sum", group)
gathered = funcol.all_gather_single(total + 1, 0, group)
assert gathered.shape == (8,)
dist.all_reduce(gathered)
