"""Rank 0 sends the rows of a table and their title; rank 1 has a list for the rows alone.

expect: p2p_mismatch
suspects: none
status: diverged hung
cause: rank 0; rank 1; 4 objects; 3 objects; SENT; BUG
fix: as many entries; recv_object_list
never: pad; drop_last
"""

import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
rows = [{"loss": 0.1}, {"loss": 0.2}, {"loss": 0.3}]
if rank == 0:
    dist.send_object_list(["losses", *rows], dst=1)  # SENT
else:
    table = [None] * (len(rows) + TWIN)
    dist.recv_object_list(table, src=0)  # BUG
