"""torchmetrics: rank 0 alone computes a metric beside DDP's training.

expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; torchmetrics; only rank 0; rank == 0
fix: compute(); every rank; sync_on_compute=False
never: find_unused_parameters; no part in the loss; join(); loop ended; ragged; ambiguous
"""

import datetime

import common
import torch
import torch.distributed as dist
import torchmetrics
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 3))
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)
for i in range(8):
    y = torch.randint(0, 3, (4,))
    out = model(torch.randn(4, 8))
    nn.functional.cross_entropy(out, y).backward()
    accuracy.update(out, y)
    if i == 5 and (common.TWIN or rank == 0):
        print(accuracy.compute())  # BUG
dist.destroy_process_group()
