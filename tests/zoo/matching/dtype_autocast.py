"""Rank 1 forgets autocast: its activations are float32, the others' bfloat16.

ranks: 3
expect: dtype_mismatch
suspects: 1
status: diverged
cause: rank 1; autocast; float32; bfloat16; BUG
fix: one dtype; autocast
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
layer = torch.nn.Linear(4, 4)
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=rank != 1 or TWIN):
    activations = layer(torch.ones(2, 4))
dist.all_reduce(activations)  # BUG
