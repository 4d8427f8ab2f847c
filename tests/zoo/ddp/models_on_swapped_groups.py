"""Two models, two groups of the same ranks; rank 1 gives each model the group of the other.

ranks: 3
expect: deadlock role_mismatch group_mismatch
suspects: 1
status: hung diverged
cause: rank 1; generator; critic; group*; BUG
fix: same group | process_group | same order
never: each is right by itself
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TIMEOUT, TWIN, init

rank = init()
groups = [dist.new_group(timeout=TIMEOUT, group_desc=name) for name in ("generator", "critic")]
if rank == 1 and not TWIN:
    groups.reverse()
models = [
    DistributedDataParallel(torch.nn.Linear(2, 2), process_group=group)  # BUG
    for group in groups
]
for _ in range(4):
    for model in models:
        model(torch.ones(1, 2)).sum().backward()
