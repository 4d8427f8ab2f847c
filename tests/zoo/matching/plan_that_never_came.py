"""Ranks 2 and 3 name a root that is not in their group; the error is swallowed, the old plan stays.

ranks: 4
expect: shape_mismatch
suspects: 2 3
status: diverged
cause: ranks 2-3; BUG; ValueError; broadcast_object_list; with float32
fix: mend what raised; error flag
never: order; set; ambiguous
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]


def shared_size(size: int) -> int:
    box = [size]
    try:
        dist.broadcast_object_list(box, src=rank // 2 * 2 if TWIN else 0, group=groups[rank // 2])
    except ValueError:
        return 4
    return box[0]


size = 4
for step in range(8):
    if step == 5:
        size = shared_size(6)
    for part in torch.split(torch.ones(12), size):
        dist.all_reduce(part)  # BUG
