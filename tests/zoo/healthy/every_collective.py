"""Each collective that gloo has, as it should be.

ranks: 3
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist

from tests.zoo.common import init

rank = init()
mine, all_of_it = torch.ones(4), torch.empty(12)
dist.all_reduce(mine, op=dist.ReduceOp.MAX)
dist.all_gather_single(all_of_it, mine)
dist.reduce_scatter_single(torch.empty(4), all_of_it)
dist.reduce_scatter(torch.empty(4), [torch.ones(4) for _ in range(3)])
dist.all_to_all_single(torch.empty(12), all_of_it)
objects: list[object] = [None, None, None]
dist.all_gather_object(objects, {"rank": rank})
dist.broadcast_object_list(objects, src=2)
dist.monitored_barrier()
dist.barrier()
