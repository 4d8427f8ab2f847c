"""Rank 1 compresses its gradients to float16, the others do not.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1; float16; hook | register_comm_hook | compress*
fix: hook | register_comm_hook
never: find_unused_parameters; take part in the loss; bucket_cap_mb; frozen
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
