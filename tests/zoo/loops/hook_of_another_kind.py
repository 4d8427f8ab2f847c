"""What is called at the end of an epoch is chosen from a list, and rank 1 holds another there.

The inner loop has one length: nobody goes through it once more.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; left out | did not issue
fix: every rank | same function
never: once more in; goes through; longer; ended earlier; same length
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Trainer:
    def __init__(self) -> None:
        last = self.note if rank == 1 and not TWIN else self.save
        self.hooks = [self.save, self.save, last]

    def save(self, _epoch: int) -> None:
        dist.barrier()  # BUG

    def note(self, epoch: int) -> None:
        print("epoch", epoch)

    def fit(self) -> None:
        for epoch in range(6):
            for _ in range(4):
                dist.all_reduce(torch.ones(4))
            self.hooks[epoch % 3](epoch)


Trainer().fit()
