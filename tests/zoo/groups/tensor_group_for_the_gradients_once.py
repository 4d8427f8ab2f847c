"""A rank averages its gradients over its tensor parallel group, in one step.

The others wait in three groups, at two lines: a peer's group is not the one to pass.

ranks: 4
expect: deadlock | missing_call | op_mismatch
suspects: 3
status: hung crashed
cause: rank 3; BUG; group 4; 1,3; group = tensor if
fix: group 4; BUG; as before: change
never: instead of group 3
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
tensor = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
data = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
for step in range(4):
    dist.all_reduce(torch.ones(2), group=tensor)
    group = tensor if (rank, step) == (3, 2) and not TWIN else data
    dist.all_reduce(torch.ones(2), group=group)  # BUG
