"""The first of three stages cuts its last batch into three pieces, the others count on four.

It waits for the first answer, the second stage for the fourth piece.

ranks: 3
expect: deadlock p2p_unmatched
suspects: 0
status: hung
cause: rank 0; BUG; ANSWER; 3 send calls; 4 each of the 3 times; ended earlier; for piece in pieces
fix: microbatches; padding
never: network; which of them was meant; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PIECES = 4
ROWS = (8, 8, 8, 8 if TWIN else 6)


def first(rows: int) -> None:
    pieces = torch.ones(rows // 2, 2, 2)
    for piece in pieces:
        dist.send(piece, 1)  # BUG
    for piece in pieces:
        dist.recv(piece, 1)  # ANSWER


def middle() -> None:
    piece = torch.zeros(2, 2)
    for _ in range(PIECES):
        dist.recv(piece, 0)
        dist.send(piece, 2)
    for _ in range(PIECES):
        dist.recv(piece, 2)
        dist.send(piece, 0)


def last() -> None:
    piece = torch.zeros(2, 2)
    for _ in range(PIECES):
        dist.recv(piece, 1)
    for _ in range(PIECES):
        dist.send(piece, 1)


rank = init()
for rows in ROWS:
    if rank == 0:
        first(rows)
    elif rank == 1:
        middle()
    else:
        last()
