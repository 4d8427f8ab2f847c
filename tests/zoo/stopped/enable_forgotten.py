"""Nobody called enable() on rank 1. It fails; all that is known is that rank 0 waited for it.

expect: evidence_gap
severity: warning
suspects: none
status: hung unknown
untraced: 1
cause: rank 1; enable() | not traced | untraced; all_reduce
fix: enable()
never: network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(4):
    if (rank, step) == (1, 2) and not TWIN:
        raise SystemExit(1)
    dist.all_reduce(torch.ones(4))
