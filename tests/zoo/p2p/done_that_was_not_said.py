"""Three workers report to a server that takes from whoever comes first, until each says it is done.

In the third round there is nothing for rank 3, which goes straight to the barrier.

ranks: 4
expect: deadlock p2p_unmatched missing_call
suspects: 3
status: hung diverged
cause: rank 3; BUG; SAID; 2 rounds before; ranks 1-2; /if not parts/
fix: rank 3; every round
never: network; drop_last; rank 0 left out
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PARTS = [[2, 1, 1], [1, 2, 1], [2, 1, 0], [1, 1, 1]]
DONE = -1.0


def say(what: float) -> None:
    dist.send(torch.tensor([what]), dst=0)  # SAID


def work(parts: int) -> None:
    if not parts and not TWIN:
        return
    for part in range(parts):
        say(float(part))
    say(DONE)  # BUG


def serve(workers: int) -> None:
    heard = torch.zeros(1)
    while workers:
        dist.recv(heard)
        workers -= heard.item() == DONE


rank = init()
for parts in PARTS:
    if rank == 0:
        serve(3)
    else:
        work(parts[rank - 1])
    dist.barrier()
