"""Four ranks. Ranks 2 and 3 take the source of a broadcast for a rank of the group, and raise.

A ``finally`` closes what all ranks use, with a barrier.

ranks: 4
expect: op_mismatch
suspects: 2 3
status: diverged
cause: BUG; ranks 2-3; ValueError; broadcast_object_list; finally
fix: not part of group; finally
never: ambiguous; drop_last; network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
group = groups[rank // 2]


def share(request: dict[str, int]) -> int:
    box = [request]
    if TWIN:
        dist.broadcast_object_list(box, group=group, group_src=0)
    else:
        dist.broadcast_object_list(box, group=group, src=0)
    return box[0]["tokens"]


try:
    for _ in range(4):
        dist.all_reduce(torch.ones(share({"tokens": 3})))
finally:
    dist.barrier()  # BUG
