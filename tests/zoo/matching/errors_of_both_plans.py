"""Both halves' shared plan fails alike and is swallowed; that the sizes differ has another reason.

ranks: 4
expect: shape_mismatch
suspects: none
status: diverged
cause: float32; BUG; ambiguous
fix: size
never: ValueError: ; mend what raised; After it
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]


def share() -> None:
    try:
        dist.broadcast_object_list([1], src=2 if rank < 2 else 0, group=groups[rank // 2])
    except ValueError:
        return


size = 4
for step in range(8):
    if step == 5:
        share()
        size = 6 if rank < 2 or TWIN else 4
    dist.all_reduce(torch.ones(size))  # BUG
