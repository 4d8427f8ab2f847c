"""Rank 0 has one sample more and flushes it: a step that meets a histogram of the same size.

Gradients are accumulated, and the end of the loader synchronises what is left. The bucket of the
additional step holds ten floats, as does the others' histogram behind the loop.

ranks: 4
expect: role_mismatch missing_call
suspects: 0
status: diverged hung
cause: rank 0; extra | more | additional | uneven | longer | one further | again;
  backward | gradient* | bucket*
fix: same number | drop_last | DistributedSampler | pad* | trim* | truncat* | join | equal | even*
never: wrong root; different dtype; different group
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
world = dist.get_world_size()
ACCUMULATE = 4


def train_one_epoch(xs: torch.Tensor) -> None:
    mine = range(rank, len(xs), world)
    mine = mine[: len(xs) // world] if TWIN else mine
    for i, j in enumerate(mine):
        sync = (i + 1) % ACCUMULATE == 0 or i + 1 == len(mine)
        with nullcontext() if sync else model.no_sync():
            (model(xs[j : j + 1]).square().mean() / ACCUMULATE).backward()  # BUG
        if sync:
            optimizer.step()
            optimizer.zero_grad()


@torch.no_grad()
def calibration(xs: torch.Tensor) -> None:
    confidence = model.module(xs[rank::world]).softmax(-1).amax(-1)
    dist.all_reduce(torch.histc(confidence, bins=10, min=0.0, max=1.0))


torch.manual_seed(11)
xs = torch.randn(33, 4)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    train_one_epoch(xs)
    calibration(xs)
