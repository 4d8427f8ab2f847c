"""join() and a comm hook, which the reducer runs on one rank and join's shadow on the other.

expect: nothing
status: aligned
"""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init


def first(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return done.value()[0]


def average(_state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
    assert work is not None
    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(first)
    return averaged


rank = init()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
model.register_comm_hook(None, average)
with model.join():
    for _ in range(3 + rank):
        model(torch.ones(1, 2)).sum().backward()
