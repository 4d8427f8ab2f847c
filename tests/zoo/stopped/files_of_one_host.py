"""Two hosts, and only the files of the first were gathered. Rank 3, on the other, has failed.

Nothing is known of ranks 2 and 3: neither may be blamed, nor may the network.

ranks: 4
expect: evidence_gap
severity: warning
suspects: none
status: hung unknown
lost_log: 2 3
twin_status: unknown
cause: ranks 2-3; no file | not gathered | gather* | collect*
fix: every host | each host | every rank | all hosts
never: network
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(4):
    if (rank, step) == (3, 2) and not TWIN:
        raise SystemExit(1)
    dist.all_reduce(torch.ones(4))
