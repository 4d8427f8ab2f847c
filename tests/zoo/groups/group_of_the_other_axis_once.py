"""Two by two ranks; in one step the last reduces its gradient over the tensor-parallel group.

ranks: 4
expect: shape_mismatch
suspects: 3
status: diverged
cause: rank 3; BUG; GROUP; ranks 1,3
fix: ranks 1,3; BUG
never: same size on every rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
tensor_parallel = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
data_parallel = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
for step in range(5):
    activation = torch.ones(16)
    dist.all_reduce(activation, group=tensor_parallel)
    gradient = torch.ones(32)
    if (rank, step) == (3, 3) and not TWIN:
        data_parallel = tensor_parallel  # GROUP
    dist.all_reduce(gradient, group=data_parallel)  # BUG
dist.barrier()
