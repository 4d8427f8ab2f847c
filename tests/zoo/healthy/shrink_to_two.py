"""An elastic job gives one process back, and the two others go on in a new, smaller group.

All agree on the step, and all leave the first group; the third process ends with 0.

ranks: 3
expect: nothing
status: aligned
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import PrefixStore
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

LONG = timedelta(seconds=60)
rank = init(LONG)
store = dist.distributed_c10d._get_default_store()


def fit(steps: range, leave_at: int | None = None) -> int:
    ddp, last = DistributedDataParallel(net), dist.get_rank() == dist.get_world_size() - 1
    for step in steps:
        ddp(torch.randn(12 // dist.get_world_size(), 4)).square().mean().backward()
        notice = torch.tensor([int(last and step == leave_at)])
        dist.all_reduce(notice, op=dist.ReduceOp.MAX)
        if notice.item():
            return step + 1
    return steps.stop


def regroup(world: int) -> bool:
    dist.barrier()
    dist.destroy_process_group()
    if rank >= world:
        return False
    smaller = PrefixStore(f"world{world}", store)
    dist.init_process_group("gloo", store=smaller, rank=rank, world_size=world, timeout=LONG)
    return True


net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
done = fit(range(8), leave_at=3)
if regroup(2):
    fit(range(done, 8))
    dist.barrier()
    dist.destroy_process_group()
