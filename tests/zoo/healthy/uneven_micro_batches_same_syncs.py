"""One rank has a micro batch less, another in each epoch, and flushes at its last one.

All still synchronise twice in each epoch; what happens under no_sync() concerns nobody else.

ranks: 3
expect: nothing
status: aligned
"""

from contextlib import ExitStack
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import init

rank = init(timedelta(seconds=60))
ACCUMULATE = 4


def train_one_epoch(epoch: int) -> int:
    count, seen = 7 if (rank + epoch) % 3 == 0 else 8, 0
    for i in range(count):
        x = torch.randn(1 + (i + rank) % 3, 6)
        boundary = (i + 1) % ACCUMULATE == 0 or i + 1 == count
        with ExitStack() as stack:
            if not boundary:
                stack.enter_context(model.no_sync())
            loss = model(x).square().mean()
            if rank == 1 and loss.item() > 1e6:  # never by so much
                continue
            loss.backward()
        seen += len(x)
        if boundary:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return seen


def gather_counts(seen: int) -> None:
    world = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(world)] if rank == 0 else None
    dist.gather(torch.tensor([seen]), counts, dst=0)


layers = torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1)
model = DistributedDataParallel(torch.nn.Sequential(*layers), gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(3):
    gather_counts(train_one_epoch(epoch))
