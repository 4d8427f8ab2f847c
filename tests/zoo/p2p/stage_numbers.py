"""Two replicas of a pipeline of two stages; stages are counted in the group, messages by rank.

In the first replica a stage's number is its rank, and all is well.

ranks: 4
expect: p2p_unmatched deadlock
suspects: 2 3
status: hung
cause: BUG; FROM; dst=1; src=0; group rank
fix: get_global_rank; group_dst=1; group_src=0
never: network; rank 1 left; rank 0 left; batch_isend_irecv
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
pipeline = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
stage = dist.get_rank(pipeline)
first, last = (dist.get_global_rank(pipeline, n) if TWIN else n for n in (0, 1))
layer = torch.nn.Linear(4, 4)
for batch in range(5):
    if stage == 0:
        out = layer(torch.full((2, 4), float(batch)))
        dist.send(out.detach(), dst=last)  # BUG
    else:
        inputs = torch.empty(2, 4)
        dist.recv(inputs, src=first)  # FROM
        layer(inputs).sum().backward()
    weight = layer.weight.detach().clone()
    dist.all_reduce(weight, group=replicas)
