"""A plan says who works in which round; worker 3 looks a row off, and waits for a file in vain.

By the calls it looks as if rank 0 had forgotten it. But a table says what each round calls.

ranks: 4
expect: deadlock missing_call p2p_unmatched
suspects: none
status: hung diverged
cause: rank 0; rank 3; BUG
fix: recv
never: nothing leads; something to each; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

PLAN = [(1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2), (1, 2, 3)]


def busy(x: torch.Tensor) -> None:
    dist.recv(x, 0)  # BUG


def idle(x: torch.Tensor) -> None:
    x.zero_()


PARTS = {True: busy, False: idle}

rank, x = init(), torch.ones(1)
off = 1 if rank == 3 and not TWIN else 0
for number, workers in enumerate(PLAN):
    if rank == 0:
        for worker in workers:
            dist.send(x, worker)
    else:
        PARTS[rank in PLAN[max(0, number - off)]](x)
    dist.all_reduce(x)
