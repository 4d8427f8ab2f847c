"""Rank 1 compresses its gradients to float16, the others do not.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
"""

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
model = DistributedDataParallel(torch.nn.Linear(4, 4))
if rank == 1 or TWIN:
    model.register_comm_hook(None, fp16_compress_hook)
for _ in range(2):
    model(torch.ones(1, 4)).sum().backward()  # BUG
