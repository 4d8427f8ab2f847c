"""The line goes through nothing: it calls what was chosen once, and rank 1 chose another one.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1
fix: same on every rank
never: what it goes through; in one order; sorted by name
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


def sparse_step() -> None:
    dist.all_reduce(torch.ones(3))


def dense_step() -> None:
    dist.broadcast(torch.ones(3), src=0)


class Trainer:
    def __init__(self, rank: int) -> None:
        found = torch.ones(4) if rank == 1 and not TWIN else torch.zeros(4)
        self.step = {0: sparse_step, 4: dense_step}[int(found.count_nonzero())]

    def run(self) -> None:
        dist.all_reduce(torch.ones(2))
        self.step()  # BUG
        dist.barrier()


Trainer(init()).run()
