"""Rank 0 scores the epoch through DDP's wrapper, whose forward broadcasts the buffers of its norm.

The others wait for the score already.

ranks: 3
expect: shape_mismatch dtype_mismatch role_mismatch op_mismatch missing_call
suspects: 0
status: diverged
cause: rank 0; BUG; forward; did not run
fix: module | every rank
never: drop_last; join; loop ended
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8))
model = DistributedDataParallel(net)


@torch.no_grad()
def score(scored: torch.nn.Module) -> float:
    scored.eval()
    return sum(float(scored(torch.ones(4, 5)).sum()) for _ in range(2))  # BUG


def on_main(work: Callable[[], float]) -> float:
    """What the first rank finds, told to the others."""
    box = [work() if rank == 0 else 0.0]
    dist.broadcast_object_list(box, src=0)
    return box[0]


for _ in range(2):
    net.train()
    for _step in range(3):
        model(torch.ones(6, 5)).logsumexp(1).mean().backward()
    on_main(lambda: score(net if TWIN else model))
