"""The last rank sums its gradients over its tensor parallel group, by a flag of the caller.

A peer waits for it at the same line in the right group. The others are past the line already.

ranks: 4
expect: deadlock | missing_call | op_mismatch
suspects: 3
status: hung crashed
cause: rank 3; BUG; FLAG; group 4
fix: group 4; BUG
never: another function; instead of all_reduce of group 3
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
tensors = [dist.new_group([0, 1]), dist.new_group([2, 3])]
replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])]


def synchronise(gradient: torch.Tensor, *, is_last: bool) -> None:
    group = tensors[rank // 2] if is_last else replicas[rank % 2]  # FLAG
    dist.all_reduce(gradient, group=group)  # BUG


for _ in range(3):
    dist.all_reduce(torch.ones(2), group=tensors[rank // 2])
    synchronise(torch.ones(4), is_last=rank == 3 and not TWIN)
    dist.barrier()
