"""A decoder for each language: in one step rank 2 takes the second, the others take the first.

Same bytes, same line. Each rank has run as many steps, and each decoder another number of them.

ranks: 3
expect: role_mismatch
suspects: 2
status: diverged
cause: rank 2; model 1; model 2; BUG; gradients
fix: every rank; choose
never: Uneven; drop_last; batches; left the loop; find_unused_parameters; forward passes
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

PLAN = ["de", "fr", "fr", "de", "de", "fr", "de", "de"]

rank = init()
torch.manual_seed(0)
decoders = {name: DistributedDataParallel(torch.nn.Linear(3, 2)) for name in ("de", "fr")}
for step, name in enumerate(PLAN):
    if (rank, step) == (2, 4) and not TWIN:
        name = "fr"
    decoders[name](torch.ones(1, 3)).sum().backward()  # BUG
dist.barrier()
dist.destroy_process_group()
