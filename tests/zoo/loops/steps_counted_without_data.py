"""Rank 1 makes fewer steps in the first epoch of several; no DataLoader counts them.

ranks: 2
expect: op_mismatch
suspects: none
status: diverged
cause: rank 1; LOOP; ended earlier; BUG
fix: same length
never: logs do not show; a branch; left out; DataLoader; drop_last
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()


class Trainer:
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def epoch(self) -> None:
        for _ in range(self.steps):  # LOOP
            dist.all_reduce(torch.ones(4))
        dist.barrier()  # BUG


trainer = Trainer(5 if rank == 1 and not TWIN else 6)
for _ in range(3):
    trainer.epoch()
