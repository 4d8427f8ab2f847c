"""A stage cuts its last batch into three pieces, and the only other one counts on four.

One against one: the batch may be meant to be so short, and the count to follow it.

expect: deadlock p2p_unmatched
suspects: none
status: hung
cause: rank 0; BUG; ANSWER; 3 send calls; which of them was meant
fix: microbatches; padding
never: network; drop_last; kept to one round
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PIECES = 4
ROWS = (8, 8, 8, 8 if TWIN else 6)


def give(rows: int) -> None:
    pieces = torch.ones(rows // 2, 2, 2)
    for piece in pieces:
        dist.send(piece, 1)  # BUG
    for piece in pieces:
        dist.recv(piece, 1)  # ANSWER


def answer() -> None:
    pieces = torch.zeros(PIECES, 2, 2)
    for piece in pieces:
        dist.recv(piece, 0)
    for piece in pieces:
        dist.send(piece, 0)


rank = init()
for rows in ROWS:
    if rank == 0:
        give(rows)
    else:
        answer()
