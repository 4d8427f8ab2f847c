"""Only workers with something to do say that they are done; the server's list is an old one.

In the third round it waits for three, of whom rank 3 has nothing to do, as others had before.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: none
status: hung diverged
cause: rank 0; BUG
fix: send | recv | count | same number
never: rank 3 alone; rank 3 came to; may have led rank 3
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PARTS = [[2, 1, 1], [1, 0, 2], [2, 1, 0], [1, 1, 1]]
LISTED = [3, 2, 2 if TWIN else 3, 3]
DONE = -1.0


def say(what: float) -> None:
    dist.send(torch.tensor([what]), dst=0)


def work(parts: int) -> None:
    if not parts:
        return
    for part in range(parts):
        say(float(part))
    say(DONE)


def serve(workers: int) -> None:
    heard = torch.zeros(1)
    while workers:
        dist.recv(heard)  # BUG
        workers -= heard.item() == DONE


rank = init()
for parts, listed in zip(PARTS, LISTED, strict=True):
    if rank == 0:
        serve(listed)
    else:
        work(parts[rank - 1])
    dist.barrier()
