"""Rank 0 tells each worker how many rows it has, and forgets that one with none does not report.

By the calls alone rank 2 left out what the others sent; but it goes by what it was told.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: none
status: hung
cause: rank 0; BUG; TAKES; rank 2 sent 3
fix: recv | count | number
never: network; drop_last; rank 2 came to; may have led rank 2
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROWS = ([2, 1, 3], [1, 1, 2], [3, 2, 1], [2, 0, 1], [1, 1, 1])
COUNT, ROW, FOUND = 1, 2, 3


def serve(rows: list[int]) -> None:
    for worker, count in enumerate(rows, 1):
        dist.send(torch.tensor([count]), worker, tag=COUNT)
        for _ in range(count):
            dist.send(torch.ones(1), worker, tag=ROW)
    for count in rows:
        if count or not TWIN:
            dist.recv(torch.zeros(1), tag=FOUND)  # TAKES


def ordered() -> int:
    count = torch.zeros(1, dtype=torch.int64)
    dist.recv(count, 0, tag=COUNT)
    return int(count)


def search() -> None:
    found, count = torch.zeros(1), ordered()
    for _ in range(count):
        dist.recv(found, 0, tag=ROW)
    if count:
        dist.send(found, 0, tag=FOUND)  # BUG


rank = init()
for rows in ROWS:
    if rank == 0:
        serve(rows)
    else:
        search()
    dist.barrier()
