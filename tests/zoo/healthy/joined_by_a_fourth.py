"""Three ranks train; a fourth joins, and all form the job anew under a prefix of its own.

Whoever joins has formed fewer jobs than the others: it is still one run, with the files of all.

ranks: 4
expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from tests.zoo.common import TIMEOUT, init

rank = init()
store = dist.distributed_c10d._get_default_store()
dist.destroy_process_group()


def enter(generation: str, ranks: int) -> None:
    prefixed = PrefixStore(generation, store)
    dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=ranks, timeout=TIMEOUT)


if rank < 3:
    enter("first", 3)
    for _ in range(4):
        dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()
enter("second", 4)
for _ in range(4):
    dist.all_reduce(torch.ones(3))
