"""Workers ask for rows until there are none, and report the largest; one found nothing large.

How many rows each gets is another number in each round; what is large it knows by itself.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: 2
status: hung
cause: rank 2; BUG; TAKES; MEETS; ranks 1,3; no more of them than in a round before; /if not large/
fix: rank 2; every round
never: network; drop_last; rank 0 left out; which of them was meant
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

ROWS = ([2, 1, 3], [1, 1, 2], [3, 2, 1], [2, 1, 1], [1, 1, 1])
LIMITS = (1, 1, 1, 2, 1)
ASK, ROW, FOUND = 1, 2, 3


def serve(rows: list[int]) -> None:
    for worker, count in enumerate(rows, 1):
        for left in range(count, -1, -1):
            dist.recv(torch.zeros(1), worker, tag=ASK)
            dist.send(torch.tensor([float(left)]), worker, tag=ROW)
    for _ in rows:
        dist.recv(torch.zeros(1), tag=FOUND)  # TAKES


def search(limit: int) -> None:
    row, large = torch.zeros(1), []
    while True:
        dist.send(row, 0, tag=ASK)
        dist.recv(row, 0, tag=ROW)
        if not row.item():
            break
        large += [row.item()] if row.item() >= limit else []
    if not large and not TWIN:
        return
    dist.send(torch.tensor([max(large, default=0.0)]), 0, tag=FOUND)  # BUG


rank = init()
for rows, limit in zip(ROWS, LIMITS, strict=True):
    if rank == 0:
        serve(rows)
    else:
        search(limit if rank == 2 else 1)
    dist.barrier()  # MEETS
