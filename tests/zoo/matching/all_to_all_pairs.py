"""Rank 1 sends its shares in the wrong order: all totals fit, the pairs do not.

ranks: 3
expect: split_mismatch
suspects: 1
status: diverged
cause: rank 1; sends; 3 elements; expects 2; BUG
fix: input_split_sizes
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
# sent[i][j] elements go from rank i to rank j.
sent = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
awaited = [row[rank] for row in sent]
mine = [3, 1, 2] if rank == 1 and not TWIN else sent[rank]
dist.all_to_all_single(torch.empty(6), torch.ones(6), awaited, mine)  # BUG
