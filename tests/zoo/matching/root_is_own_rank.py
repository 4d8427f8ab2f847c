"""Every rank broadcasts from itself.

ranks: 3
expect: root_mismatch
suspects: none
status: diverged
cause: every rank | each rank; itself | its own; root* | src
fix: same src
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
dist.broadcast(torch.ones(8), src=0 if TWIN else rank)  # BUG
