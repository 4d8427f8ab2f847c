"""torchmetrics: rank 0 shows the value of its own batches, which the metric then keeps.

expect: op_mismatch role_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG | LOOP; update()
fix: compute(); update(); every rank
never: find_unused_parameters; drop_last; join()
"""

import datetime

import common
import torch
import torch.distributed as dist
from torchmetrics.classification import MulticlassAccuracy

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
metric = MulticlassAccuracy(3)


def shown():
    metric._to_sync = False
    value = metric.compute()
    metric._to_sync = True
    return value


def evaluate(show):
    metric.reset()
    for batch in range(4):
        generator = torch.Generator().manual_seed(batch)
        metric.update(torch.randn(8, 3, generator=generator), torch.randint(0, 3, (8,)))
    if show and rank == 0 and not common.TWIN:
        shown()
    return metric.compute()  # BUG


for split in range(4):  # LOOP
    evaluate(show=split == 2)
total = torch.ones(3)
dist.all_reduce(total)
dist.destroy_process_group()
